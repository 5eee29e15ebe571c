"""The difference of any two states, and what became of one entity."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from history.generated_history import GeneratedHistory, applied, held
from omnigraph.errors import BadRequest, NotFoundError, TypeNotFound


def expected(before, after):
    """The changes between two states, by a plain comparison of everything."""
    found = {}
    for key in before.keys() | after.keys():
        was, now = before.get(key), after.get(key)
        if was != now:
            op = "insert" if was is None else "delete" if now is None else "update"
            found[key] = (op, was, now)
    return found


def found(diff):
    changes = [change.wire() for change in diff]
    keys = [(c["type"]["name"], c["id"]) for c in changes]
    assert len(keys) == len(set(keys))
    return {
        key: (c["op"], c.get("before"), c.get("after"))
        for key, c in zip(keys, changes, strict=True)
    }


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> GeneratedHistory:
    seed = 11
    print(f"seed {seed}")
    generated = GeneratedHistory(tmp_path_factory.mktemp("generated") / "g.omni", seed)
    for _ in range(30):
        generated.step()
    return generated


def test_a_diff_is_what_a_plain_comparison_finds(generated: GeneratedHistory) -> None:
    chosen = random.Random(13)
    commits = sorted(generated.states)
    for _ in range(60):
        a, b = chosen.choice(commits), chosen.choice(commits)
        diff = generated.graph.diff(a, b, images=True)
        wanted = expected(generated.states[a], generated.states[b])
        assert found(diff) == wanted, (a, b)
        ops = [op for op, _, _ in wanted.values()]
        totals = [
            sum(getattr(one, name) for one in diff.stats.values())
            for name in ("inserted", "updated", "deleted")
        ]
        assert totals == [ops.count(op) for op in ("insert", "update", "delete")]
        assert diff.is_empty == (not wanted)
        changes = [change.wire() for change in diff]
        assert applied(generated.states[a], changes) == generated.states[b]


def test_a_diff_without_images_names_the_same_changes(generated: GeneratedHistory) -> None:
    commits = sorted(generated.states)
    for a, b in ((commits[0], commits[-1]), (commits[-1], commits[3])):
        plain = list(generated.graph.diff(a, b))
        whole = list(generated.graph.diff(a, b, images=True))
        assert [(c.type_name, c.id, c.op) for c in plain] == [
            (c.type_name, c.id, c.op) for c in whole
        ]
        assert all(c.before is None and c.after is None for c in plain)
        for one, full in zip(plain, whole, strict=True):
            image = full.after or full.before
            assert one.endpoints == image.endpoints


def test_a_diff_as_tables(generated: GeneratedHistory) -> None:
    commits = sorted(generated.states)
    diff = generated.graph.diff(commits[0], commits[-1], images=True)
    tables = diff.to_arrow()
    assert {name: table.num_rows for name, table in tables.items()} == {
        name: stats.total for name, stats in diff.stats.items()
    }
    people = tables["Person"]
    assert people.column_names == ["id", "op", "before", "after"]
    assert people.column("before").null_count == people.num_rows
    ids = [row["id"] for row in people.column("after").to_pylist()]
    assert ids == people.column("id").to_pylist()
    plain = generated.graph.diff(commits[0], commits[-1]).to_arrow()["Person"]
    assert plain.column_names == ["id", "op"]


def test_a_diff_takes_every_kind_of_revision(generated: GeneratedHistory) -> None:
    graph = generated.graph
    first, last = graph.commits()[-1], graph.commits()[0]
    graph.tag("empty", first.commit_id)
    whole = found(graph.diff(first.commit_id, last.commit_id, images=True))
    for a in ("empty", "1", "manifest:main:v1", first.commit_id):
        for b in (None, "main", "branch:main", last.commit_id, "2999-01-01"):
            assert found(graph.diff(a, b, images=True)) == whole, (a, b)
    assert list(graph.diff("main")) == []
    with pytest.raises(NotFoundError, match="nowhere"):
        graph.diff("nowhere")


def test_a_diff_can_be_narrowed(generated: GeneratedHistory) -> None:
    graph = generated.graph
    whole = list(graph.diff("1"))
    for given, fits in (
        ({"types": ["Knows"]}, lambda c: c.type_name == "Knows"),
        ({"kinds": ["node"]}, lambda c: c.kind == "node"),
        ({"ops": ["delete"]}, lambda c: c.op == "delete"),
    ):
        assert list(graph.diff("1", **given)) == [c for c in whole if fits(c)]
    with pytest.raises(TypeNotFound, match="no type 'Nobody'"):
        graph.diff("1", types=["Nobody"])
    with pytest.raises(BadRequest, match="op 'x'"):
        graph.diff("1", ops=["x"])


# --- one entity -------------------------------------------------------------------------------


def test_the_history_of_every_entity_is_what_its_states_say(generated: GeneratedHistory) -> None:
    for branch in generated.branches[:3]:
        line = [c.commit_id for c in generated.graph.commits(branch)]
        by_id = {c.commit_id: c for c in generated.graph.commits(branch)}
        keys = {key for commit in line for key in generated.states[commit]}
        for type_name, id in sorted(keys)[:14]:
            wanted, now = [], None
            at = line[0]
            states = []
            while at is not None:
                states.append((at, generated.states[at].get((type_name, id))))
                at = by_id[at].parent_commit_id
            for commit, image in reversed(states):
                if image != now:
                    op = "insert" if now is None else "delete" if image is None else "update"
                    wanted.append((commit, op, image))
                now = image
            history = generated.graph.entity_history(type_name, id, branch=branch)
            assert history.is_complete
            versions = [
                (one["cause"]["graph_commit_id"], one["op"], one["image"])
                for one in history.wire()["versions"]
            ]
            assert versions == wanted[::-1], (branch, type_name, id)


def test_the_history_of_an_entity_after_cleanup_says_what_is_missing(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", "node A { k: String @key  n: I32? }")
    for n in range(4):
        graph.load([{"type": "A", "data": {"k": "x", "n": n}}], "merge", actor=f"a{n}")
    assert [v.commit.actor_id for v in graph.entity_history("A", "x").versions] == [
        *("a3", "a2", "a1", "a0"),
    ]
    graph.cleanup(keep=2, confirm=True)
    history = graph.entity_history("A", "x")
    assert not history.is_complete
    assert [(v.op, v.image.properties["n"]) for v in history.versions] == [
        ("update", 3),
        ("existing", 2),
    ]


def test_entities_and_types_that_never_were(generated: GeneratedHistory) -> None:
    assert generated.graph.entity_history("Person", "nobody").versions == ()
    with pytest.raises(TypeNotFound, match="no type 'Nobody'"):
        generated.graph.entity_history("Nobody", "x")
    with pytest.raises(TypeNotFound):
        generated.graph.entity_history("Person", "x", kind="edge")


def test_the_wire_form_of_a_change(tmp_path: Path) -> None:
    graph = omnigraph.init(
        tmp_path / "g.omni", "node A { k: String @key  n: I32? }\nedge E: A -> A { w: F64? }"
    )
    graph.load([{"type": "A", "data": {"k": k}} for k in "ab"], "append")
    rows = [
        {"type": "A", "data": {"k": "a", "n": 1}},
        {"edge": "E", "from": "a", "to": "b", "data": {"id": "e", "w": 0.5}},
    ]
    commit = graph.load(rows, "merge", actor="maria").commit
    body: dict[str, Any] = graph.commit_changes(commit.commit_id).wire()
    node, edge = body["changes"]
    assert body["cause"] == {
        "graph_commit_id": commit.commit_id,
        "parent_commit_id": commit.parent_commit_id,
        "actor_id": "maria",
        "graph_manifest_version": commit.manifest_version,
        "authored_branch": "main",
        "authored_at": commit.created_at,
    }
    assert node == {
        "kind": "node",
        "type": {"id": node["type"]["id"], "name": "A"},
        "id": "a",
        "op": "update",
        "before": {"properties": {"k": "a", "n": None}},
        "after": {"properties": {"k": "a", "n": 1}},
    }
    assert edge["after"] == {"properties": {"w": 0.5}, "endpoints": {"from": "a", "to": "b"}}
    assert "before" not in edge
    (plain,) = graph.diff(commit.parent_commit_id, types=["E"])
    assert plain.wire()["endpoints"] == {"from": "a", "to": "b"}
    assert held(graph.export())["E", "e"] == edge["after"]
