"""Interrupted writes that cannot be recovered as usual, because of other damage."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph
from crash.crash_checks import check, check_order, content_of, intents
from crash.crash_scenario import create, person, run
from crash.fault_points import EDGES, INTENTS, MANIFEST, NODES, At, Stopped, parked, stop, watched
from crash.foreign_writers import append_raw, table_place
from omnigraph.errors import (
    ManifestCorrupt,
    OmniError,
    RecoveryRequired,
    SchemaContractMismatch,
    StorageFailure,
    StorageKind,
    UncoveredDrift,
)
from omnigraph.graph.graph import Graph
from omnigraph.identity import EntityKind, TableKey, TypeId
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import RECOVERY, make_table_path
from omnigraph.storage.manifest.manifest_changes import Publication, Register, SetVersion, Tombstone
from omnigraph.storage.manifest.manifest_reader import read_newest
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.publish import publish
from omnigraph.storage.refs import MAIN_REF
from omnigraph.storage.tables.file_probes import name_version_file
from omnigraph.storage.write_plan import FORMAT
from store_places import open_graph

PAIR = 'insert Person {slug: "eve", name: "E"} insert Knows {from: "eve", to: "ada"}'


@pytest.fixture
def place(tmp_path):
    create(tmp_path / "town")
    return tmp_path / "town"


def interrupt(place, moment, action, path, *, branch="main", nth=1):
    """End a writer at a moment, and return what a reader sees then."""
    with watched(At(moment, action, path, stop, nth=nth)):
        graph = open_graph(place, actor="victim")
        with pytest.raises(Stopped):
            run(graph, PAIR, branch)
    return content_of(open_graph(place, read_only=True))


def assert_refused(place, text):
    """No writer recovers it, every writer reports it, and readers continue."""
    before = content_of(open_graph(place, read_only=True))
    left = intents(place)
    for _ in range(2):
        with pytest.raises(RecoveryRequired, match=text):
            open_graph(place)
    assert intents(place) == left
    assert content_of(open_graph(place, read_only=True)) == before


def newest_version_file(table: str) -> Path:
    return min(Path(table).glob("_versions/*.manifest"))


def test_a_version_the_graph_shows_and_the_table_lost_is_never_papered_over(place):
    interrupt(place, "after", "put", INTENTS)
    graph = open_graph(place, read_only=True)
    newest_version_file(table_place(place, graph, "node:Person")).unlink()
    left = intents(place)
    with pytest.raises(OmniError):
        open_graph(place)
    assert intents(place) == left
    (pending,) = graph.recovery_pending()
    assert pending.decision == "refuse"
    assert pending.tables["node:Person"] == "invariant_broken"


def test_an_effect_whose_record_was_lost_is_neither_finished_nor_undone(place):
    """Two versions after its base, of which the first can no longer be read."""
    interrupt(place, "after", "commit", EDGES)
    graph = open_graph(place, read_only=True)
    table = table_place(place, graph, "edge:Knows")
    append_raw(place, graph, "edge:Knows")
    lost = Path(table) / name_version_file(3)
    lost.unlink()
    for record in Path(table).glob("_transactions/2-*.txn"):
        record.unlink()
    assert_refused(place, "unverifiable")


def test_a_foreign_write_on_top_of_ours_is_retained(place):
    interrupt(place, "after", "commit", EDGES)
    append_raw(place, open_graph(place, read_only=True), "edge:Knows")
    assert_refused(place, "buried")


def test_a_table_of_the_write_with_a_foreign_version_does_not_stop_the_rollback(place):
    """Ours is undone; what the stranger did stays for the operator to look at."""
    before = interrupt(place, "after", "commit", EDGES)
    graph = open_graph(place, read_only=True)
    append_raw(place, graph, "node:Person")
    graph = open_graph(place)
    assert [str(audit.kind) for audit in graph.recovery_list()] == ["RolledBack"]
    assert content_of(graph) == before
    assert intents(place) == []
    run(graph, 'insert Knows {from: "cy", to: "ada"}')


def test_a_rollback_names_who_wrote_and_where_the_tables_were(place):
    interrupt(place, "after", "commit", EDGES)
    graph = open_graph(place)
    (audit,) = graph.recovery_list()
    commit = graph.commits()[0]
    assert (audit.actor_id, audit.writer_kind) == ("victim", "Mutation")
    assert (audit.commit_id, commit.actor_id) == (commit.commit_id, "omnigraph:recovery")
    (table,) = audit.tables
    assert (table.table_key, table.from_version, table.to_version) == ("edge:Knows", 3, 2)
    shown = {t.table_key: t.manifest_version for t in graph.snapshot().tables}
    assert shown["edge:Knows"] == 4, "the restored version is a version of its own"


def test_an_intent_that_reappears_after_its_write_was_undone_is_removed_again(place):
    """Removing it was lost with the machine's last seconds, say."""
    interrupt(place, "before", "commit", NODES)
    (name,) = intents(place)
    left = (place / "__recovery" / name).read_bytes()
    graph = open_graph(place)
    run(graph, 'insert Person {slug: "fay", name: "F"}')
    before = content_of(graph)
    (place / "__recovery" / name).write_bytes(left)
    assert check(place, {"as it was": before})
    assert [str(audit.kind) for audit in graph.recovery_list()] == ["RolledBack"]


def assert_stops_writers_alone(place, before, file):
    """Writers report the file, which stays; readers are unaffected."""
    content = file.read_bytes()
    writer = open_graph(place, read_only=True)
    writer._open.read_only = False  # as if it had been open before
    attempts = (
        lambda: run(writer, 'insert City {slug: "lima", name: "L"}'),
        lambda: writer.load([person("eve")], "merge"),
        lambda: writer.create_branch("dev"),
        lambda: writer.recover(),
        lambda: open_graph(place),
    )
    for attempt in attempts:
        with pytest.raises(ManifestCorrupt, match=file.name):
            attempt()
    assert file.read_bytes() == content
    assert content_of(open_graph(place, read_only=True)) == before


@pytest.mark.parametrize("share", [0, 0.3, 0.6, 0.99])
def test_a_truncated_intent_stops_writers_until_it_is_whole_again(place, share):
    before = interrupt(place, "after", "commit", EDGES)
    file = place / "__recovery" / intents(place)[0]
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    assert_stops_writers_alone(place, before, file)
    file.write_bytes(whole)
    assert check(place, {"undone": before})


GARBAGE = {
    "bytes": bytes(range(256)),
    "zeros": bytes(4096),
    "a list": b"[1, 2, 3]",
    "a number": b"7",
    "depths": b"[" * 100_000,
    "an object of another kind": json.dumps({"schema_version": FORMAT, "hello": "world"}).encode(),
    "a later format": json.dumps({"schema_version": FORMAT + 1, "steps": []}).encode(),
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=list(GARBAGE))
def test_garbage_among_the_intents_stops_writers_until_it_is_quarantined(place, content):
    before = content_of(open_graph(place))
    file = place / "__recovery" / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    assert_stops_writers_alone(place, before, file)
    file.unlink()
    assert check(place, {"untouched": before})


def test_folders_and_other_files_among_the_intents_are_ignored(place):
    before = content_of(open_graph(place))
    folder = place / "__recovery"
    folder.mkdir(exist_ok=True)
    (folder / "notes.txt").write_text("to whom it may concern")
    (folder / ".01ARZ3NDEKTSV4RRFFQ69G5FAV.json.swp").write_bytes(bytes(16))
    (folder / "folder.json").mkdir()
    assert check(place, {"untouched": before})


class Unlistable(LocalObjectStore):
    """A folder whose intents cannot be listed while it is broken."""

    is_broken = False

    def list(self, prefix):
        if self.is_broken and prefix == RECOVERY:
            raise StorageFailure(StorageKind.TRANSIENT, f"no listing of {prefix}")
        return super().list(prefix)


def test_intents_that_cannot_be_listed_stop_writers_until_they_can(place):
    before = content_of(open_graph(place))
    store = Unlistable(place)
    writer = Graph(GraphRoot(store))
    store.is_broken = True
    for attempt in (
        lambda: run(writer, PAIR),
        lambda: writer.load([person("eve")], "append"),
        lambda: writer.create_branch("dev"),
        lambda: writer.recover(),
        lambda: Graph(GraphRoot(store)),
    ):
        with pytest.raises(StorageFailure, match="no listing"):
            attempt()
    assert content_of(writer) == before
    assert content_of(Graph(GraphRoot(store), read_only=True)) == before
    store.is_broken = False
    run(writer, 'insert City {slug: "lima", name: "L"}')
    run(writer, 'delete City where slug = "lima"')
    assert len(content_of(writer)["main"]) == len(before["main"])
    check_order(place, writer)


def test_a_write_without_an_actor_is_finished_without_one(place):
    with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
        run(open_graph(place), PAIR)
    graph = open_graph(place, actor="another")
    (audit,) = graph.recovery_list()
    assert (str(audit.kind), audit.actor_id) == ("RolledForward", None)
    assert graph.commits()[0].actor_id is None
    check_order(place, graph)


def test_a_foreign_table_version_is_distinguished_from_an_interrupted_write_of_another_branch(
    place,
):
    graph = open_graph(place)
    graph.create_branch("dev")
    run(graph, 'insert Person {slug: "fay", name: "F"}', "dev")
    with watched(At("after", "commit", EDGES, stop)), pytest.raises(Stopped):
        run(open_graph(place), PAIR, "dev")
    append_raw(place, graph, "node:Person")
    with pytest.raises(UncoveredDrift, match="node:Person"):
        run(graph, 'insert Person {slug: "gus", name: "G"}')
    open_graph(place).recover()
    with pytest.raises(UncoveredDrift, match="node:Person"):
        run(graph, 'insert Person {slug: "gus", name: "G"}')
    run(graph, PAIR, "dev")
    assert intents(place) == []


@pytest.mark.parametrize("damage", ["missing", "unknown"])
@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
def test_a_graph_whose_tables_are_not_those_of_its_schema_is_refused(place, damage, read_only):
    root = GraphRoot.at(str(place))
    entry = read_newest(root.manifest()).state.entries["node:City"]
    identity = replace(entry.identity, stable_table_id=TypeId(99))
    changes = {
        "missing": Tombstone(entry.identity, entry.table_key, entry.version),
        "unknown": Register(
            identity, TableKey("node:Ghost"), make_table_path(EntityKind.NODE, identity)
        ),
    }
    shown = SetVersion(identity, TableKey("node:Ghost"), 1, None, 0)
    both = (changes[damage], shown) if damage == "unknown" else (changes[damage],)
    publish(root, MAIN_REF, Publication(changes=both))
    with pytest.raises(SchemaContractMismatch, match="Ghost" if damage == "unknown" else "City"):
        content_of(open_graph(place, read_only=read_only))


def test_two_concurrent_opens_recover_an_interrupted_write_once(place):
    interrupt(place, "before", "commit", MANIFEST)
    with parked("before", "commit", MANIFEST, lambda: lambda: open_graph(place)) as first:
        second = threading.Thread(target=omnigraph.open, args=(place,))
        second.start()
        second.join(0.2)
        assert second.is_alive(), "the second must wait for the first"
        graph = first.finish()
        second.join(600)
    assert [str(audit.kind) for audit in graph.recovery_list()] == ["RolledForward"]
    check_order(place, graph)


def test_an_intent_that_vanishes_during_the_wait_for_its_writer_is_ignored(place):
    """The writer is alive after all: it finishes while another process opens the graph."""
    work = lambda: (lambda graph: lambda: run(graph, PAIR))(open_graph(place))  # noqa: E731
    with parked("before", "commit", EDGES, work) as writer:
        opened = threading.Thread(target=omnigraph.open, args=(place,))
        opened.start()
        opened.join(0.2)
        assert opened.is_alive(), "opening must wait for the writer whose intent it sees"
        writer.finish()
        opened.join(600)
    graph = open_graph(place)
    assert graph.recovery_list() == ()
    check_order(place, graph)


def test_a_fork_that_vanished_before_its_write_moved_it_is_no_obstacle(place):
    open_graph(place).create_branch("dev")
    before = interrupt(place, "after", "put", INTENTS, branch="dev")
    for tree in [*place.glob("nodes/*/tree"), *place.glob("edges/*/tree")]:
        shutil.rmtree(tree)
    for ref in [*place.glob("nodes/*/_refs"), *place.glob("edges/*/_refs")]:
        shutil.rmtree(ref)
    assert check(place, {"untouched": before})


@pytest.mark.parametrize("half", ["tree", "ref"])
def test_a_fork_that_is_only_half_there_is_removed_with_its_write(place, half):
    """A crash between the two steps of creating or removing a fork leaves half of it."""
    open_graph(place).create_branch("dev")
    before = interrupt(place, "after", "put", INTENTS, branch="dev")
    doomed = "tree/*" if half == "tree" else "_refs/branches/*"
    for path in [*place.glob(f"nodes/*/{doomed}"), *place.glob(f"edges/*/{doomed}")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert check(place, {"untouched": before})
    trees = {path.name for path in place.glob("*/*/tree/*")}
    refs = {path.stem for path in place.glob("*/*/_refs/branches/*.json")}
    assert trees == refs, "every fork that is left is whole, made by the checks"
