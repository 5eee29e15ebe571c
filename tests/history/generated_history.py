"""Random histories of a small graph, with every state that was ever acknowledged."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import omnigraph
from omnigraph import Graph
from omnigraph.errors import OmniError
from omnigraph.settings import Settings

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  born: Date?
  seen: DateTime?
  tags: [String]?
  feel: Vector(2)?
  photo: Blob?
}
node Place { slug: String @key  title: String? }
edge Knows: Person -> Person { weight: F64? }
edge LivesIn: Person -> Place
"""
NAMES = [f"p{n:02}" for n in range(12)]
SLUGS = [f"s{n}" for n in range(4)]

Entities = dict[tuple[str, str], dict]
"""The contents of a graph, by type and id."""


def held(records) -> Entities:
    """Records of an export by type and id."""
    found = {}
    for record in records:
        name = record.get("type") or record["edge"]
        data = dict(record["data"])
        ends = {end: record[end] for end in ("from", "to") if end in record}
        found[name, data.pop("id")] = {"properties": data} | ({"endpoints": ends} if ends else {})
    return found


def applied(entities: Entities, changes) -> Entities:
    """The entities after changes in wire form; a change that does not fit them is a mistake."""
    after = dict(entities)
    for change in changes:
        key = (change["type"]["name"], change["id"])
        assert after.get(key) == change.get("before"), change
        assert ("after" in change) == (change["op"] != "delete")
        assert ("before" in change) == (change["op"] != "insert")
        assert change.get("before") != change.get("after")
        if "after" in change:
            after[key] = change["after"]
        else:
            del after[key]
    return after


class GeneratedHistory:
    """A graph to which things happen, and what it held after each commit."""

    def __init__(self, place: Path, seed: int, fold_after: int = 5) -> None:
        self.random = random.Random(seed)
        self.graph = omnigraph.init(place, SCHEMA, settings=Settings(fold_after=fold_after))
        self.branches = ["main"]
        self.states: dict[str, Entities] = {}
        self._keep("main")

    def _keep(self, branch: str) -> None:
        view = self.graph.at(branch=branch)
        self.states[view.commit_id] = held(view.export())

    def step(self) -> None:
        branch = self.random.choice(self.branches)
        happening = self.random.choice(
            [
                self._load,
                self._load,
                self._update,
                self._delete,
                self._unlink,
                self._touch,
                self._optimize,
                self._fork,
                self._merge,
                self._revert,
                self._cherry_pick,
                self._restore,
            ]
        )
        happening(self.graph, branch)
        self._keep(branch)

    def _person(self, name: str) -> dict:
        r = self.random
        data = {"name": name, "age": r.choice([None, r.randrange(3)])}
        if r.random() < 0.5:
            data["born"] = f"19{r.randrange(10, 99)}-02-03"
            data["seen"] = "2001-02-03T04:05:06.789Z"
        if r.random() < 0.5:
            data["tags"] = r.sample(["a", "b", ""], r.randrange(3))
            data["feel"] = [r.random(), -0.0]
        if r.random() < 0.3:
            data["photo"] = r.choice(["base64:AAAA", "base64:AAEC", "base64:"])
        return {"type": "Person", "data": data}

    def _load(self, graph: Graph, branch: str) -> None:
        r = self.random
        names = r.sample(NAMES, r.randrange(1, 5))
        rows = [self._person(name) for name in names]
        rows += [{"type": "Place", "data": {"slug": s}} for s in r.sample(SLUGS, 1)]
        for n in range(r.randrange(3)):
            ends = {"from": r.choice(names), "to": r.choice(names)}
            data = {"id": f"k{r.randrange(8)}", "weight": r.choice([None, 0.5, float(n)])}
            if not any(row.get("data", {}).get("id") == data["id"] for row in rows):
                rows.append({"edge": "Knows", **ends, "data": data})
        graph.load(rows, "merge", branch=branch)

    def _update(self, graph: Graph, branch: str) -> None:
        name, age = self.random.choice(NAMES), self.random.randrange(3)
        text = f'query q() {{ update Person set {{ age: {age} }} where name >= "{name}" }}'
        graph.mutate(text, branch=branch)

    def _delete(self, graph: Graph, branch: str) -> None:
        name = self.random.choice(NAMES)
        graph.mutate(f'query q() {{ delete Person where name = "{name}" }}', branch=branch)

    def _unlink(self, graph: Graph, branch: str) -> None:
        name = self.random.choice(NAMES)
        graph.mutate(f'query q() {{ delete Knows where from = "{name}" }}', branch=branch)

    def _touch(self, graph: Graph, branch: str) -> None:
        """Write rows as they are."""
        rows = list(graph.export(["Place"], branch=branch))
        if rows:
            graph.load(rows, "merge", branch=branch)

    def _optimize(self, graph: Graph, branch: str) -> None:
        graph.optimize(branch=branch)

    def _fork(self, graph: Graph, branch: str) -> None:
        name = f"b{len(self.branches)}"
        commits = graph.commits(branch)
        at = self.random.choice([None, self.random.choice(commits).commit_id])
        try:
            graph.create_branch(name, source=branch, commit=at)
        except OmniError:
            return
        self.branches.append(name)

    def _merge(self, graph: Graph, branch: str) -> None:
        other = self.random.choice(self.branches)
        rule = self.random.choice(["ours", "theirs"])
        with suppress(OmniError):  # into itself, or an edge would miss its node
            graph.merge(other, branch, resolve=rule)

    def _revert(self, graph: Graph, branch: str) -> None:
        with suppress(OmniError):  # the first commit, or an edge would miss its node
            graph.revert(self._commit(branch), branch=branch, parent=1, resolve="theirs")

    def _cherry_pick(self, graph: Graph, branch: str) -> None:
        picked = self._commit(self.random.choice(self.branches))
        with suppress(OmniError):
            graph.cherry_pick(picked, branch=branch, parent=1, resolve="theirs")

    def _restore(self, graph: Graph, branch: str) -> None:
        at = self._commit(branch)
        graph.restore(at, branch=branch)
        assert held(graph.export(branch=branch)) == self.states[at]

    def _commit(self, branch: str) -> str:
        return self.random.choice(self.graph.commits(branch)).commit_id
