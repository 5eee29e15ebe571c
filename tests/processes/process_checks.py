"""Invariants of a graph, regardless of who wrote it and how the writers ended."""

from __future__ import annotations

from collections import Counter

from omnigraph.storage.tables.table import open_newest
from omnigraph.storage.write_plan import list_operations
from store_places import open_graph, root_of


def acknowledged(events):
    """The acknowledged commits of the workers, and the facts reported with each."""
    return {event["ack"]: event for event in events if event.get("ack")}


def errors(events):
    return Counter(event["error"] for event in events if "error" in event)


def check_line(graph, acks, branch="main"):
    """One line of commits, each the parent of the next, with every acknowledged one in it."""
    commits = graph.commits(branch)
    ids = [commit.commit_id for commit in commits]
    assert len(set(ids)) == len(ids), "a commit is listed twice"
    parents = [commit.parent_commit_id for commit in commits]
    assert parents == [*ids[1:], None], "the history is not one line"
    versions = [commit.manifest_version for commit in commits]
    assert versions == sorted(set(versions), reverse=True), "versions do not go up one by one"
    assert set(acks) <= set(ids), f"acknowledged and lost: {set(acks) - set(ids)}"
    return commits


def check_tables(place, branch="main"):
    """Check that no table of the branch has drifted, and that no id is duplicated."""
    graph = open_graph(place, read_only=True)
    snapshot = graph._open.views.read_newest(branch).snapshot
    for key, entry in snapshot.entries.items():
        if entry.owner == snapshot.ref.incarnation:
            newest = open_newest(snapshot.root.location(entry.path, entry.owner_branch))
            assert newest.version == entry.version, f"{key} has drifted"
            assert newest.count_rows() == entry.row_count
    for name in {key.partition(":")[2] for key in snapshot.entries}:
        ids = [record["data"]["id"] for record in graph.export([name], branch=branch)]
        repeated = [id for id, count in Counter(ids).items() if count > 1]
        assert not repeated, f"{name} has {repeated} twice"


def check_pairs(graph, branch="main"):
    """Each written item has exactly its edge: no write is visible in part."""
    records = list(graph.export(branch=branch))
    items = {r["data"]["id"]: r["data"]["by"] for r in records if r.get("type") == "Item"}
    edges = Counter((r["from"], r["data"]["by"]) for r in records if r.get("edge") == "Has")
    written = {(id, by) for id, by in items.items() if "-" in id}
    assert set(edges) == written, f"written in part: {set(edges) ^ written}"
    assert set(edges.values()) <= {1}
    return set(items)


def check_recovered(place):
    """Opening recovers every write, and opening again changes nothing."""
    graph = open_graph(place)
    assert list_operations(root_of(place).store) == []
    before = {name: graph.snapshot(name) for name in graph.branches()}
    again = open_graph(place)
    assert again.recover() == []
    assert {name: again.snapshot(name) for name in again.branches()} == before
    return again
