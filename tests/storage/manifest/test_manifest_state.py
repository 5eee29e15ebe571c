"""The fold of manifest rows: what it accepts, what it refuses, and that it loses nothing."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import CommitId, TableIdentity, TableIncarnationId, TableKey, TypeId
from omnigraph.storage.manifest.manifest_state import (
    Head,
    ManifestState,
    Registration,
    Row,
    RowKind,
    SchemaContract,
    TableVersion,
    decode_state,
    encode_rows,
    make_row,
    make_table_row_id,
    make_version_row_id,
)


def identity(number: int, incarnation: int = 1) -> TableIdentity:
    return TableIdentity(TypeId(number), TableIncarnationId(incarnation))


def registration(number: int, name: str = "node:Person") -> Registration:
    folder = "nodes" if name.startswith("node:") else "edges"
    return Registration(identity(number), TableKey(name), f"{folder}/{identity(number)}")


def table_row(number: int = 1, name: str = "node:Person", **changes: object) -> Row:
    known = registration(number, name)
    made = make_row(
        make_table_row_id(known.identity),
        RowKind.TABLE,
        table_key=name,
        identity=known.identity,
        location=known.path,
    )
    return Row(**{**made, **changes})  # type: ignore[typeddict-item]


def version_row(number: int = 1, version: int = 3, **changes: object) -> Row:
    made = make_row(
        make_version_row_id(identity(number), version),
        RowKind.TABLE_VERSION,
        table_key="node:Person",
        identity=identity(number),
        version=version,
        row_count=7,
        metadata="{}",
    )
    return Row(**{**made, **changes})  # type: ignore[typeddict-item]


names = st.text(st.characters(categories=["Lu", "Ll", "Nd"]), min_size=1, max_size=8)
ulids = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=25, max_size=25).map("0{}".format)


@st.composite
def states(draw: st.DrawFn) -> ManifestState:
    keys = draw(st.lists(st.tuples(st.sampled_from(["node", "edge"]), names), unique=True))
    registrations, versions, tombstones = {}, {}, {}
    for number, (kind, name) in enumerate(keys, start=1):
        known = registration(number, f"{kind}:{name}")
        registrations[known.identity] = known
        version = draw(st.integers(1, 2**40))
        branch = draw(st.none() | ulids)
        versions[known.identity] = TableVersion(
            known.identity, version, branch, draw(st.integers(0, 2**40)), branch
        )
        if draw(st.booleans()):
            tombstones[known.identity] = draw(st.integers(1, 2**40))
    heads = {
        branch: Head(branch, draw(st.none() | names), CommitId(draw(names)), None)
        for branch in draw(st.lists(names, unique=True, max_size=3))
    }
    contract = draw(st.none() | st.builds(SchemaContract, st.text(), st.text(), st.text()))
    return ManifestState(registrations, versions, tombstones, heads, contract)


@given(states())
def test_a_state_survives_its_rows(state: ManifestState) -> None:
    rows, added = encode_rows(state, [])
    assert decode_state(pa.concat_tables(rows).to_pylist()) == state
    assert added.num_rows == 0


@given(states(), states())
def test_the_cached_part_of_a_state_is_used_for_its_successors_only(
    state: ManifestState, other: ManifestState
) -> None:
    for one in (state, replace(state, versions={}), replace(state, heads=other.heads), other):
        assert decode_state(pa.concat_tables(encode_rows(one, [])[0]).to_pylist()) == one


def test_a_tombstone_at_or_above_the_version_hides_the_table() -> None:
    known = registration(1)
    pin = TableVersion(known.identity, 5, None, 1)
    for tombstone, visible in ((4, True), (5, False), (6, False)):
        state = ManifestState(
            {known.identity: known}, {known.identity: pin}, {known.identity: tombstone}
        )
        assert (TableKey("node:Person") in state.entries) is visible


def test_the_greatest_version_wins_whatever_the_order_of_rows() -> None:
    rows = [table_row(), version_row(version=9), version_row(version=3)]
    for ordered in (rows, rows[::-1]):
        assert decode_state(ordered).entries[TableKey("node:Person")].version == 9


def test_rows_of_unknown_kinds_are_carried_along() -> None:
    strange = make_row("future:1", RowKind.TABLE, metadata="kept")
    strange["object_type"] = "from_the_future"
    state = decode_state([table_row(), version_row(), strange])
    assert strange in pa.concat_tables(encode_rows(state, [])[0]).to_pylist()


def test_a_head_of_an_earlier_branch_of_the_same_name_does_not_count() -> None:
    head = Head("b", "01OLD", CommitId("c1"), None)
    state = ManifestState(heads={"b": head})
    assert state.head_of("b", "01OLD") == head
    assert state.head_of("b", "01NEW") is None


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ([table_row(stable_table_id=None)], "lacks its table identity"),
        ([table_row(stable_table_id=0)], "lacks its table identity"),
        ([table_row(object_id="table:wrong")], "foreign id"),
        ([table_row(location="nodes/elsewhere")], "is not located at"),
        ([table_row(location=None)], "is not located at"),
        ([table_row(table_key="thing:Person")], "malformed name"),
        ([table_row(), table_row(name="node:Other")], "contradicts"),
        ([table_row(), version_row(object_id="table_version:x")], "foreign id"),
        ([table_row(), version_row(row_count=None)], "row count"),
        ([table_row(), version_row(metadata=None)], "metadata"),
        ([table_row(), version_row(table_version=None)], "no version"),
        ([version_row()], "no registration"),
        ([table_row(1), table_row(2), version_row(1), version_row(2)], "share the name"),
        ([make_row("graph_head:main", RowKind.GRAPH_HEAD, metadata="{")], "not JSON"),
        ([make_row("graph_head:main", RowKind.GRAPH_HEAD, metadata="{}")], "head_commit_id"),
        (
            [make_row("graph_head:m", RowKind.GRAPH_HEAD, identity=identity(1), metadata="{}")],
            "must not",
        ),
    ],
    ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "",
)
def test_a_row_that_contradicts_itself_is_refused(rows: list[Row], problem: str) -> None:
    with pytest.raises(ManifestCorrupt, match=problem):
        decode_state(rows)
