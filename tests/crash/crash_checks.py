"""Invariants of a graph after a writer of it was killed at any point."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from crash.crash_scenario import TYPES, run
from omnigraph import Graph
from omnigraph.errors import HistoricalVersionReclaimed
from omnigraph.storage.layout import RECOVERY
from omnigraph.storage.manifest.commit_records import RECOVERY_ACTOR
from omnigraph.storage.manifest.manifest_reader import read_newest
from omnigraph.storage.refs import BranchRef, list_refs
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.table import find_latest_version
from store_places import Place, files_of, open_graph, root_of

Content = dict[str, tuple[str, ...]]
"""The content of each branch: its records, sorted, the number of its commits, and the tags if any.

Edges come without their ids, which are minted again. Commits of recoveries are not counted.
"""

CHECKER = "checker"


def content_of(graph: Graph) -> Content:
    return {name: (*_records(graph, name), _commits(graph, name)) for name in graph.branches()}


def _commits(graph: Graph, branch: str) -> str:
    made = [c for c in graph.commits(branch) if c.actor_id not in (RECOVERY_ACTOR, CHECKER)]
    tags = [tag.name for tag in graph.tags() if tag.branch == branch]
    return f"{len(made)} commits" + (f", tags {tags}" if tags else "")


def _records(graph: Graph, branch: str) -> tuple[str, ...]:
    found = []
    for record in graph.export(branch=branch):
        data = dict(record["data"])
        if "edge" in record:
            data.pop("id")
        found.append(json.dumps({**record, "data": data}, sort_keys=True))
    return tuple(sorted(found))


def check(place: Place, allowed: Mapping[str, Content], *, is_cleaned: bool = False) -> str:
    """Return which of the allowed contents the graph has; all else must be in order.

    After a cleanup, only the newest commit of each branch must still open.
    """
    before = _read_only(place)
    graph = open_graph(place, actor=CHECKER)
    found = content_of(graph)
    assert found in allowed.values(), (
        f"neither {' nor '.join(allowed)}: {_differences(found, allowed)}"
    )
    check_order(place, graph, is_cleaned=is_cleaned)
    recovered = files_of(place)
    assert open_graph(place).recover() == []
    assert files_of(place) == recovered, "a second recovery changed something"
    assert content_of(graph) == found
    _write_everywhere(open_graph(place, actor=CHECKER), found)
    check_order(place, graph, is_cleaned=is_cleaned)
    name = next(name for name, content in allowed.items() if content == found)
    if before != found:
        # Readers before the recovery saw the graph without the interrupted write.
        assert before in allowed.values()
    return name


def _read_only(place: Place) -> Content:
    """Read the graph before recovery, which the reader must not change."""
    files = files_of(place)
    seen = content_of(open_graph(place, read_only=True))
    assert files_of(place) == files, "reading changed something"
    return seen


def check_order(place: Place, graph: Graph, *, is_cleaned: bool = False) -> None:
    """Check that nothing is pending, no table has drifted, and the history is whole."""
    assert graph.recovery_pending() == []
    assert intents(place) == []
    root = root_of(place)
    for ref in list_refs(root.store):
        _check_tables(Snapshot(root, ref, read_newest(root.manifest(ref.incarnation))))
        readable = _check_history(graph, ref)
        assert all(readable if not is_cleaned else readable[:1]), "a commit cannot be opened"


def intents(place: Place) -> list[str]:
    names = (path.removeprefix(f"{RECOVERY}/") for path in files_of(place) if RECOVERY in path)
    return sorted(name for name in names if name.endswith(".json") and "/" not in name)


def drift(snapshot: Snapshot) -> dict[str, tuple[int, int]]:
    """The tables a branch owns that are not where the graph shows them."""
    found = {}
    for key, entry in snapshot.entries.items():
        if entry.owner == snapshot.ref.incarnation:
            head = find_latest_version(snapshot.root.location(entry.path, entry.owner_branch))
            if head != entry.version:
                found[key] = (entry.version, head)
    return found


def _check_tables(snapshot: Snapshot) -> None:
    assert drift(snapshot) == {}
    for key, entry in snapshot.entries.items():
        table = snapshot.table(key)
        assert table.count_rows() == entry.row_count, key
        ids = Counter(table.scan(["id"]).column("id").to_pylist())
        assert all(count == 1 for count in ids.values()), f"{key} has an id twice"


def _check_history(graph: Graph, ref: BranchRef) -> list[bool]:
    """Open each commit made on the branch, from the newest on."""
    commits = graph.commits(ref.name)
    seen = {commit.commit_id for commit in commits}
    assert all(seen.issuperset(commit.parents) for commit in commits), "the history has a gap"
    assert [commit for commit in commits if not commit.parents] == [commits[-1]]
    chain, by_id = [commits[0]], {commit.commit_id: commit for commit in commits}
    while chain[-1].parent_commit_id is not None:
        chain.append(by_id[chain[-1].parent_commit_id])
    versions = [commit.manifest_version for commit in chain]
    assert versions == sorted(set(versions), reverse=True)
    assert graph.snapshot(ref.name).graph_commit_id == commits[0].commit_id
    operations = [(audit.operation_id, audit.kind) for audit in graph.recovery_list(ref.name)]
    assert len(operations) == len(set(operations))
    stored = graph._open.views.commits(ref.name)
    own = [commit for commit in stored if commit.incarnation in (ref.incarnation, None)]
    return [_is_readable(graph, ref.name, commit.commit_id) for commit in own]


def _is_readable(graph: Graph, branch: str, commit_id: str) -> bool:
    try:
        return bool(graph.at(commit=commit_id, branch=branch).info().tables)
    except HistoricalVersionReclaimed:
        return False


def _write_everywhere(graph: Graph, found: Content) -> None:
    """Every table of every branch takes an insert, an update and a delete."""
    for branch in found:
        run(
            graph,
            'insert Person {slug: "probe", name: "P"} insert City {slug: "probe", name: "P"} '
            'insert Knows {from: "probe", to: "probe"} insert LivesIn {from: "probe", to: "probe"}',
            branch,
        )
        assert len(_records(graph, branch)) == len(found[branch]) - 1 + len(TYPES)
        run(graph, 'update Person set {age: 1} where slug = "probe"', branch)
        run(graph, 'delete Person where slug = "probe"', branch)
        run(graph, 'delete City where slug = "probe"', branch)
    assert content_of(graph) == found


def _differences(found: Content, allowed: Mapping[str, Content]) -> str:
    lines = []
    for name, content in allowed.items():
        for branch in sorted(found.keys() | content.keys()):
            here, there = set(found.get(branch, ())), set(content.get(branch, ()))
            if here != there or (branch in found) != (branch in content):
                lines.append(
                    f"{name}/{branch}: more {sorted(here - there)}, less {sorted(there - here)}"
                )
    return "; ".join(lines)
