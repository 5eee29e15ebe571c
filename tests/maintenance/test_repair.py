"""Tables that something else moved: what was done to them is read from their own records."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from crash.fault_points import MANIFEST, At, fail, watched
from lance_maintenance import compact
from maintenance.library_graph import (
    BOOK,
    READER,
    TABLES,
    by_key,
    entry,
    head,
    intents,
    native,
    rows_of,
    run,
    table,
    write_a_little,
)
from omnigraph.errors import (
    BadRequest,
    ManifestCorrupt,
    MergeConflicts,
    RecoveryRequired,
    UncoveredDrift,
)
from omnigraph.maintenance.maintenance_results import Drift, RepairAction
from omnigraph.maintenance.repair import FORCED_ACTOR, REPAIR_ACTOR, is_maintenance
from omnigraph.storage.tables.file_probes import name_version_file
from omnigraph.storage.tables.table_branches import (
    RESERVE_FRAGMENTS,
    TableVersionRecord,
    read_record,
)


@pytest.fixture
def compacted(library):
    """A library whose books a stranger compacted, B-tree and all."""
    library.ensure_indices()
    write_a_little(library)
    compact(table(library, BOOK))
    assert head(library, BOOK) == entry(library, BOOK).version + 2
    return library


def test_a_graph_without_drift_has_nothing_to_repair(library):
    result = library.repair(confirm=True)
    assert [one.table_key for one in result.tables] == [*TABLES]
    assert {one.classification for one in result.tables} == {Drift.NO_DRIFT}
    assert {one.action for one in result.tables} == {RepairAction.NO_OP}


def test_a_compaction_is_recognised_and_shown_without_being_accepted(compacted):
    seen = compacted.snapshot()
    one = by_key(compacted.repair().tables)[BOOK]
    assert (one.classification, one.action) == (Drift.VERIFIED_MAINTENANCE, RepairAction.PREVIEW)
    assert one.operations == (RESERVE_FRAGMENTS, "Rewrite")
    assert one.lance_head_version == one.manifest_version + 2
    assert compacted.snapshot() == seen


def test_a_compaction_is_accepted_when_confirmed(compacted):
    before = rows_of(compacted)
    result = compacted.repair(confirm=True)
    assert by_key(result.tables)[BOOK].action is RepairAction.HEALED
    assert entry(compacted, BOOK).version == head(compacted, BOOK)
    assert compacted.commits()[0].actor_id == REPAIR_ACTOR
    assert result.graph_manifest_version == compacted.snapshot().graph_manifest_version
    assert rows_of(compacted) == before
    run(compacted, 'update Book set {year: 3} where slug = "a"')


def test_the_record_of_a_compacted_btree_can_be_read(compacted):
    """Red: without the defaults given to its class, such a record raises TypeError."""
    newest = read_record(table(compacted, BOOK), head(compacted, BOOK))
    assert newest.operation == "Rewrite"
    assert newest.uuid is not None
    assert newest.read_version == entry(compacted, BOOK).version


def test_rows_deleted_by_a_foreign_writer_are_refused_until_forced(library):
    native(library, READER).delete("slug = 'ann'")
    refused = library.repair(confirm=True)
    one = by_key(refused.tables)[READER]
    assert (one.classification, one.action) == (Drift.SUSPICIOUS, RepairAction.REFUSED)
    assert refused.is_refused
    assert one.operations == ("Delete",)
    forced = library.repair(confirm=True, force=True)
    assert by_key(forced.tables)[READER].action is RepairAction.FORCED
    assert library.commits()[0].actor_id == FORCED_ACTOR
    assert entry(library, READER).row_count == 1
    run(library, 'insert Reader {slug: "new", name: "N"}')


def test_rows_accepted_by_force_are_checked_when_they_are_merged(library):
    """Also by a fast-forward, which trusts the commits that checked what they wrote."""
    write_a_little(library, 1)
    library.create_branch("copy")
    native(library, READER).delete("slug = 'rx0'")
    library.repair(confirm=True, force=True)
    with pytest.raises(MergeConflicts, match="src 'rx0' not found in Reader"):
        library.merge("main", "copy")


def test_all_accepted_tables_become_visible_in_one_commit(library):
    write_a_little(library)
    for key in (BOOK, READER):
        compact(table(library, key))
    commits = len(library.commits())
    library.repair(confirm=True)
    assert len(library.commits()) == commits + 1
    assert all(head(library, key) == entry(library, key).version for key in TABLES)


def test_a_refused_table_does_not_keep_the_others_from_being_accepted(library):
    write_a_little(library)
    compact(table(library, BOOK))
    native(library, READER).delete("slug = 'ann'")
    rows = by_key(library.repair(confirm=True).tables)
    assert rows[BOOK].action is RepairAction.HEALED
    assert rows[READER].action is RepairAction.REFUSED


def test_a_missing_record_proves_nothing(library):
    write_a_little(library)
    before = entry(library, BOOK).version
    compact(table(library, BOOK))
    stranger = native(library, BOOK)
    stranger.delete("slug = 'a'")
    stranger.cleanup_old_versions(versions=[before + 1])
    one = by_key(library.repair(confirm=True).tables)[BOOK]
    assert (one.classification, one.action) == (Drift.UNVERIFIABLE, RepairAction.REFUSED)
    assert "cannot be read" in one.error


def test_force_needs_confirmation(library):
    with pytest.raises(BadRequest, match="--confirm"):
        library.repair(force=True)


def test_a_write_that_cannot_be_recovered_comes_first(library, place):
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    native(library, READER).delete("slug = 'ann'")
    with pytest.raises(RecoveryRequired):
        library.repair(confirm=True, force=True)
    assert intents(place)


@pytest.mark.parametrize("confirm", [False, True])
def test_an_interrupted_write_is_recovered_first_and_is_no_drift(library, place, confirm):
    with watched(At("before", "commit", MANIFEST, fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    assert head(library, READER) == entry(library, READER).version + 1
    result = library.repair(confirm=confirm)
    assert {one.classification for one in result.tables} == {Drift.NO_DRIFT}
    assert intents(place) == []
    assert "'zed'" in str(rows_of(library))
    assert REPAIR_ACTOR not in {commit.actor_id for commit in library.commits()}


@pytest.mark.parametrize(
    "look_after",
    [
        lambda graph: graph.optimize(),
        lambda graph: graph.ensure_indices(),
        lambda graph: graph.repair(),
        lambda graph: graph.repair(confirm=True, force=True),
    ],
    ids=["optimize", "ensure indices", "repair", "repair by force"],
)
def test_a_missing_version_is_neither_optimized_nor_repaired_away(library, place, look_after):
    write_a_little(library)
    shown = entry(library, BOOK)
    Path(place, shown.path, name_version_file(shown.version)).unlink()
    graph = omnigraph.open(place)
    before = graph.snapshot(), {path for path in place.rglob("*") if path.is_file()}
    with pytest.raises(ManifestCorrupt, match=f"shows version {shown.version} of node:Book"):
        look_after(graph)
    assert (graph.snapshot(), {path for path in place.rglob("*") if path.is_file()}) == before


def test_a_writer_that_meets_the_drift_names_the_way_out(library):
    native(library, READER).delete("slug = 'ann'")
    with pytest.raises(UncoveredDrift, match="omnigraph repair"):
        run(library, 'insert Reader {slug: "new", name: "N"}')


def record(version: int, operation: str, read_version: int | None = None) -> TableVersionRecord:
    return TableVersionRecord(version, operation, f"u{version}", read_version)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([record(6, "Rewrite", 5)], True),
        ([record(6, RESERVE_FRAGMENTS, 5), record(7, "Rewrite", 5)], True),
        (
            [
                record(6, RESERVE_FRAGMENTS, 5),
                record(7, "Rewrite", 5),
                record(8, RESERVE_FRAGMENTS, 7),
                record(9, "Rewrite", 7),
            ],
            True,
        ),
        ([record(6, RESERVE_FRAGMENTS, 5)], False),
        ([record(6, RESERVE_FRAGMENTS, 5), record(7, "Append", 5)], False),
        ([record(6, RESERVE_FRAGMENTS, 5), record(7, "Rewrite", 6)], False),
        ([record(6, RESERVE_FRAGMENTS, 4), record(7, "Rewrite", 5)], False),
        ([record(6, "CreateIndex", 5)], False),
        ([record(6, "Rewrite", 5), record(7, "Delete", 6)], False),
    ],
)
def test_only_compactions_count_as_maintenance(history, expected):
    assert is_maintenance(history, 5) is expected
