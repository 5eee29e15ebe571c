"""Interrupted writes that cannot be settled as usual, because something else is wrong as well."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

import omnigraph
from crash.checks import check, check_order, content_of, intents
from crash.strangers import append_raw, table_place
from crash.town import create, run
from crash.windows import EDGES, INTENTS, MANIFEST, NODES, At, Stopped, parked, stop, watched
from omnigraph.errors import OmniError, RecoveryRequired
from omnigraph.storage.tables.probes import version_file

PAIR = 'insert Person {slug: "eve", name: "E"} insert Knows {from: "eve", to: "ada"}'


@pytest.fixture
def place(tmp_path):
    create(tmp_path / "town")
    return tmp_path / "town"


def interrupt(place, moment, action, path, *, branch="main", nth=1):
    """A writer that ends at a moment; gives what a reader sees then."""
    with watched(At(moment, action, path, stop, nth=nth)):
        graph = omnigraph.open(place, actor="victim")
        with pytest.raises(Stopped):
            run(graph, PAIR, branch)
    return content_of(omnigraph.open(place, read_only=True))


def assert_refused(place, text):
    """Nobody settles it, everybody who writes is told, and readers go on."""
    before = content_of(omnigraph.open(place, read_only=True))
    left = intents(place)
    for _ in range(2):
        with pytest.raises(RecoveryRequired, match=text):
            omnigraph.open(place)
    assert intents(place) == left
    assert content_of(omnigraph.open(place, read_only=True)) == before


def newest_version_file(table: str) -> Path:
    return min(Path(table).glob("_versions/*.manifest"))


def test_a_version_the_graph_shows_and_the_table_lost_is_never_papered_over(place):
    interrupt(place, "after", "put", INTENTS)
    graph = omnigraph.open(place, read_only=True)
    newest_version_file(table_place(place, graph, "node:Person")).unlink()
    left = intents(place)
    with pytest.raises(OmniError):
        omnigraph.open(place)
    assert intents(place) == left
    (pending,) = graph.recovery_pending()
    assert pending.decision == "refuse"
    assert pending.tables["node:Person"] == "invariant_broken"


def test_an_effect_whose_record_was_lost_is_neither_finished_nor_undone(place):
    """Two versions after its base, of which the first can no longer be read."""
    interrupt(place, "after", "commit", EDGES)
    graph = omnigraph.open(place, read_only=True)
    table = table_place(place, graph, "edge:Knows")
    append_raw(place, graph, "edge:Knows")
    lost = Path(table) / version_file(3)
    lost.unlink()
    for record in Path(table).glob("_transactions/2-*.txn"):
        record.unlink()
    assert_refused(place, "unverifiable")


def test_a_write_of_somebody_else_on_top_of_ours_is_kept(place):
    interrupt(place, "after", "commit", EDGES)
    append_raw(place, omnigraph.open(place, read_only=True), "edge:Knows")
    assert_refused(place, "buried")


def test_a_table_of_the_write_that_a_stranger_moved_does_not_stop_the_rollback(place):
    """Ours is undone; what the stranger did stays for the operator to look at."""
    before = interrupt(place, "after", "commit", EDGES)
    graph = omnigraph.open(place, read_only=True)
    append_raw(place, graph, "node:Person")
    graph = omnigraph.open(place)
    assert [str(audit.kind) for audit in graph.recovery_list()] == ["RolledBack"]
    assert content_of(graph) == before
    assert intents(place) == []
    run(graph, 'insert Knows {from: "cy", to: "ada"}')


def test_a_rollback_names_who_wrote_and_where_the_tables_were(place):
    interrupt(place, "after", "commit", EDGES)
    graph = omnigraph.open(place)
    (audit,) = graph.recovery_list()
    commit = graph.commits()[0]
    assert (audit.for_actor, audit.writer_kind) == ("victim", "Mutation")
    assert (audit.commit_id, commit.actor_id) == (commit.commit_id, "omnigraph:recovery")
    (table,) = audit.tables
    assert (table.table_key, table.from_version, table.to_version) == ("edge:Knows", 3, 2)
    shown = {t.table_key: t.manifest_version for t in graph.snapshot().tables}
    assert shown["edge:Knows"] == 4, "the restored version is a version of its own"


def test_an_announcement_that_comes_back_after_its_write_was_undone_is_removed_again(place):
    """Removing it was lost with the machine's last seconds, say."""
    interrupt(place, "before", "commit", NODES)
    (name,) = intents(place)
    left = (place / "__recovery" / name).read_bytes()
    graph = omnigraph.open(place)
    run(graph, 'insert Person {slug: "fay", name: "F"}')
    before = content_of(graph)
    (place / "__recovery" / name).write_bytes(left)
    assert check(place, {"as it was": before})
    assert [str(audit.kind) for audit in graph.recovery_list()] == ["RolledBack"]


def test_two_who_open_at_once_settle_an_interrupted_write_once(place):
    interrupt(place, "before", "commit", MANIFEST)
    with parked("before", "commit", MANIFEST, lambda: lambda: omnigraph.open(place)) as first:
        second = threading.Thread(target=omnigraph.open, args=(place,))
        second.start()
        second.join(0.2)
        assert second.is_alive(), "the second must wait for the first"
        graph = first.finish()
        second.join(60)
    assert [str(audit.kind) for audit in graph.recovery_list()] == ["RolledForward"]
    check_order(place, graph)


def test_an_announcement_that_vanishes_while_we_wait_for_its_writer_is_no_concern(place):
    """The writer is alive after all: it finishes while somebody opens the graph."""
    work = lambda: (lambda graph: lambda: run(graph, PAIR))(omnigraph.open(place))  # noqa: E731
    with parked("before", "commit", EDGES, work) as writer:
        opened = threading.Thread(target=omnigraph.open, args=(place,))
        opened.start()
        opened.join(0.2)
        assert opened.is_alive(), "opening must wait for the writer whose announcement it sees"
        writer.finish()
        opened.join(60)
    graph = omnigraph.open(place)
    assert graph.recovery_list() == ()
    check_order(place, graph)


def test_a_fork_that_vanished_before_its_write_moved_it_is_no_obstacle(place):
    omnigraph.open(place).create_branch("dev")
    before = interrupt(place, "after", "put", INTENTS, branch="dev")
    for tree in [*place.glob("nodes/*/tree"), *place.glob("edges/*/tree")]:
        shutil.rmtree(tree)
    for ref in [*place.glob("nodes/*/_refs"), *place.glob("edges/*/_refs")]:
        shutil.rmtree(ref)
    assert check(place, {"untouched": before})


@pytest.mark.parametrize("half", ["tree", "ref"])
def test_a_fork_that_is_only_half_there_is_removed_with_its_write(place, half):
    """What a crash between the two steps of making or removing a fork leaves."""
    omnigraph.open(place).create_branch("dev")
    before = interrupt(place, "after", "put", INTENTS, branch="dev")
    doomed = "tree/*" if half == "tree" else "_refs/branches/*"
    for path in [*place.glob(f"nodes/*/{doomed}"), *place.glob(f"edges/*/{doomed}")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert check(place, {"untouched": before})
    trees = {path.name for path in place.glob("*/*/tree/*")}
    refs = {path.stem for path in place.glob("*/*/_refs/branches/*.json")}
    assert trees == refs, "every fork that is left is whole, made by the checks"
