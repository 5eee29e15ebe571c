"""The pure step from one manifest state to the next, and what a publish may assume."""

from dataclasses import replace

import pytest

from omnigraph.errors import (
    BadRequest,
    ExpectedVersionMismatch,
    ManifestCorrupt,
    ReadSetChanged,
)
from omnigraph.identity import CommitId, TableIdentity, TableIncarnationId, TableKey, TypeId
from omnigraph.storage.manifest.commit_records import CommitMetadata
from omnigraph.storage.manifest.manifest_changes import (
    Change,
    ExactHead,
    Publication,
    Register,
    Rename,
    SetVersion,
    Tombstone,
    apply_publication,
    check_expectations,
)
from omnigraph.storage.manifest.manifest_state import ManifestState, SchemaContract

PERSON, PET = TableKey("node:Person"), TableKey("node:Pet")
ONE = TableIdentity(TypeId(1), TableIncarnationId(10))
TWO = TableIdentity(TypeId(2), TableIncarnationId(11))


def path(identity: TableIdentity) -> str:
    return f"nodes/{identity}"


def after(state: ManifestState, *changes: Change, commit: str | None = None) -> ManifestState:
    recorded = CommitMetadata(commit_id=CommitId(commit), created_at=5) if commit else None
    publication = Publication(changes=changes, commit=recorded)
    return apply_publication(state, publication, "main", None, None)


@pytest.fixture
def state() -> ManifestState:
    return after(
        ManifestState(),
        Register(ONE, PERSON, path(ONE)),
        SetVersion(ONE, PERSON, 1, None, 0),
        commit="c0",
    )


def test_registering_and_showing_a_table_in_one_publish(state: ManifestState) -> None:
    grown = after(state, SetVersion(TWO, PET, 1, None, 3), Register(TWO, PET, path(TWO)))
    assert [*grown.entries] == [PERSON, PET]
    assert grown.entries[PET].row_count == 3


def test_a_commit_moves_the_head_of_its_branch(state: ManifestState) -> None:
    head = after(state, commit="c1").head_of("main", None)
    assert head is not None
    assert head.commit_id == "c1"


def test_a_rename_keeps_identity_path_and_version(state: ManifestState) -> None:
    human = TableKey("node:Human")
    renamed = after(state, Rename(ONE, PERSON, human))
    assert renamed.entries[human].path == path(ONE)
    assert renamed.entries[human].version == 1
    assert PERSON not in renamed.entries


def test_dropping_and_adding_again_makes_another_table(state: ManifestState) -> None:
    dropped = after(state, Tombstone(ONE, PERSON, 2))
    assert PERSON not in dropped.entries
    again = after(dropped, Register(TWO, PERSON, path(TWO)), SetVersion(TWO, PERSON, 1, None, 0))
    assert again.entries[PERSON].identity == TWO


def test_the_same_version_may_change_its_owner_but_not_its_rows(state: ManifestState) -> None:
    handed_over = after(state, SetVersion(ONE, PERSON, 1, "01FORK", 0))
    assert handed_over.entries[PERSON].owner_branch == "01FORK"
    with pytest.raises(BadRequest, match="rows"):
        after(state, SetVersion(ONE, PERSON, 1, None, 9))


def test_other_versions_leave_the_tables_what_they_are_and_nothing_else_does(
    state: ManifestState,
) -> None:
    assert after(state, SetVersion(ONE, PERSON, 2, None, 5), commit="c1").has_tables_of(state)
    dropped = after(state, Tombstone(ONE, PERSON, 2))
    for other in (
        after(state, Register(TWO, PET, path(TWO)), SetVersion(TWO, PET, 1, None, 0)),
        after(state, Rename(ONE, PERSON, PET)),
        replace(state, contract=SchemaContract("", "", "{}")),
        dropped,
    ):
        assert not other.has_tables_of(state)
    assert not after(dropped, SetVersion(ONE, PERSON, 3, None, 5)).has_tables_of(dropped)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ([SetVersion(TWO, PET, 1, None, 0)], BadRequest, "not registered"),
        ([SetVersion(ONE, PET, 2, None, 0)], ReadSetChanged, "dataset_binding"),
        ([SetVersion(ONE, PERSON, 2, None, 0)] * 2, BadRequest, "set twice"),
        ([Register(TWO, PET, "nodes/elsewhere")], BadRequest, "not the path"),
        ([Register(ONE, PET, path(ONE))], BadRequest, "already registered"),
        ([Rename(TWO, PET, PERSON)], BadRequest, "not live"),
        ([Rename(ONE, PET, PERSON)], ReadSetChanged, "dataset_binding"),
        ([Rename(ONE, PERSON, TableKey("edge:Person"))], BadRequest, "would move"),
        (
            [Register(TWO, PERSON, path(TWO)), SetVersion(TWO, PERSON, 1, None, 0)],
            ManifestCorrupt,
            "share the name",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_malformed_batch_is_refused_before_any_write(
    state: ManifestState, changes: list[Change], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        after(state, *changes)


def check(state: ManifestState, publication: Publication) -> None:
    check_expectations(state, publication, "main", None)


def test_a_stale_expectation_names_both_versions(state: ManifestState) -> None:
    with pytest.raises(ExpectedVersionMismatch) as caught:
        check(state, Publication(expected={ONE: (PERSON, 4)}))
    assert (caught.value.expected, caught.value.actual) == (4, 1)


def test_an_unknown_table_counts_as_version_zero(state: ManifestState) -> None:
    with pytest.raises(ExpectedVersionMismatch) as caught:
        check(state, Publication(expected={TWO: (PET, 1)}))
    assert caught.value.actual == 0


def test_a_dropped_table_reports_its_tombstone(state: ManifestState) -> None:
    dropped = after(state, Tombstone(ONE, PERSON, 2))
    with pytest.raises(ExpectedVersionMismatch) as caught:
        check(dropped, Publication(expected={ONE: (PERSON, 1)}))
    assert caught.value.actual == 2


def test_an_expected_table_that_was_renamed_is_a_changed_read_set(state: ManifestState) -> None:
    with pytest.raises(ReadSetChanged, match="dataset_binding"):
        check(state, Publication(expected={ONE: (PET, 1)}))


def test_the_exact_head_includes_its_absence(state: ManifestState) -> None:
    check(state, Publication(head=ExactHead(CommitId("c0"))))
    for wrong in (ExactHead(None), ExactHead(CommitId("c9"))):
        with pytest.raises(ReadSetChanged, match="graph_head:main"):
            check(state, Publication(head=wrong))
    check_expectations(state, Publication(head=ExactHead(None)), "fresh", "01FRESH")
