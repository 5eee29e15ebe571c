"""Maintenance of a table with a version of a writer abandoned long ago."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from crash.fault_points import At, fail, watched
from lance_maintenance import compact
from maintenance.library_graph import (
    BOOK,
    READER,
    TABLES,
    by_key,
    entry,
    head,
    rows_of,
    run,
    table,
    write_a_little,
)
from omnigraph.maintenance.maintenance_results import Drift, RepairAction
from omnigraph.maintenance.repair import REPAIR_ACTOR


@pytest.fixture
def late(place, library):
    """A library whose readers are ahead of the graph by the version of a suspended writer.

    Its version is removed while the write is recovered, and restored afterwards.
    """
    write_a_little(library)
    with watched(At("after", "commit", "*/nodes/*", fail(KeyboardInterrupt()))):
        graph = omnigraph.open(place)
        with pytest.raises(KeyboardInterrupt):
            run(graph, 'insert Reader {slug: "zed", name: "Z"}')
    versions = Path(table(library, READER).location.uri, "_versions")
    newest = min(versions.glob("*.manifest"), key=str)
    content = newest.read_bytes()
    newest.unlink()
    omnigraph.open(place)
    newest.write_bytes(content)
    assert kinds(library) == ["Abandoned"]
    assert head(library, READER) == entry(library, READER).version + 1
    return library


def kinds(graph):
    return [str(audit.kind) for audit in graph.recovery_list()]


def assert_undone(graph, before):
    """The version is never visible again, and the table accepts strict writes."""
    assert kinds(graph) == ["Abandoned", "RevokedEffect"]
    assert all(head(graph, key) == entry(graph, key).version for key in TABLES)
    assert rows_of(graph) == before
    run(graph, 'update Reader set {name: "Annie"} where slug = "ann"')
    assert graph.verify(deep=True).findings == ()


def test_optimizing_revokes_it_and_continues_with_the_table(late):
    before = rows_of(late)
    done = by_key(late.optimize().tables)
    assert (done[READER].skipped, done[READER].committed) == (None, True)
    assert_undone(late, before)


def test_repairing_shows_it_and_undoes_it_once_confirmed(late):
    before, seen = rows_of(late), late.snapshot()
    shown = by_key(late.repair().tables)[READER]
    assert (shown.classification, shown.action) == (Drift.REVOKED_EFFECT, RepairAction.PREVIEW)
    assert (late.snapshot(), kinds(late)) == (seen, ["Abandoned"])
    commits = late.commits()
    result = late.repair(confirm=True)
    assert by_key(result.tables)[READER].action is RepairAction.UNDONE
    assert not result.is_refused
    assert result.graph_manifest_version == late.snapshot().graph_manifest_version
    assert late.commits() == commits, "no row was accepted, so there is nothing to record"
    assert_undone(late, before)


def test_repairing_undoes_it_and_accepts_a_compaction_at_the_same_time(late):
    before = rows_of(late)
    compact(table(late, BOOK))
    rows = by_key(late.repair(confirm=True).tables)
    assert rows[READER].action is RepairAction.UNDONE
    assert rows[BOOK].action is RepairAction.HEALED
    assert late.commits()[0].actor_id == REPAIR_ACTOR
    assert_undone(late, before)


def test_cleaning_undoes_it_and_takes_it_for_no_drift(late):
    before = rows_of(late)
    result = late.cleanup(keep=1, confirm=True)
    assert [row.error for row in result.tables if row.error] == []
    assert by_key(result.tables)[READER].old_versions_removed > 0
    assert_undone(late, before)
