"""Random lives of branches that are written, merged, deleted and made again, against a model.

The model keeps every state there ever was and finds the base of a merge by itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

import omnigraph
from omnigraph.errors import MergeConflicts

SCHEMA = "node Item { slug: String @key  value: I32? }\nnode Other { slug: String @key }"
State = dict[str, int | None]


@dataclass
class Model:
    """Commits by number: their parents and their states. A branch is the number of its head."""

    parents: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    states: list[State] = field(default_factory=lambda: [{}])
    heads: dict[str, int] = field(default_factory=lambda: {"main": 0})
    came_from: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, state: State, *parents: int) -> None:
        self.parents.append(parents)
        self.states.append(state)
        self.heads[branch] = len(self.states) - 1

    def ancestors(self, commit: int) -> set[int]:
        return {commit}.union(*(self.ancestors(parent) for parent in self.parents[commit]))

    def merge(self, source: str, target: str) -> tuple[str, State, set[str]]:
        """The outcome, the merged state and the ids in conflict."""
        s, t = self.heads[source], self.heads[target]
        common = self.ancestors(s) & self.ancestors(t)
        if s in common:
            return "already_up_to_date", self.states[t], set()
        bases = {c for c in common if not any(c in self.parents[d] for d in common)}
        outcome = "fast_forward" if t in common else "merged"
        result, conflicts = dict(self.states[t]), set()
        ids = set().union(*(self.states[c].keys() for c in {s, t, *bases}))
        for id in ids:
            mine, theirs = (self._value(c, id) for c in (t, s))
            were = {self._value(base, id) for base in bases}
            if mine == theirs or were == {theirs}:
                continue
            if were != {mine}:
                conflicts.add(id)
            elif theirs == "absent":
                del result[id]
            else:
                result[id] = theirs
        return outcome, result, conflicts

    def _value(self, commit: int, id: str) -> object:
        return self.states[commit].get(id, "absent")


def content(graph, branch: str) -> State:
    rows = graph.nodes("Item", branch=branch).to_arrow().to_pydict()
    return dict(zip(rows["slug"], rows["value"], strict=True))


def live(path, seed: int, steps: int) -> dict[str, int]:
    chance, model = random.Random(seed), Model()
    graph = omnigraph.init(path, SCHEMA)
    met = {
        "merged": 0,
        "fast_forward": 0,
        "already_up_to_date": 0,
        "conflicts": 0,
        "criss_cross": 0,
    }
    for step in range(steps):
        where = f"seed {seed}, step {step}"
        branch = chance.choice(sorted(model.heads))
        luck = chance.random()
        if luck < 0.45:
            write(chance, graph, model, branch)
        elif luck < 0.6 and len(model.heads) < 5:
            name = chance.choice([n for n in ("a", "b", "c", "d") if n not in model.heads])
            graph.create_branch(name, source=branch)
            model.heads[name], model.came_from[name] = model.heads[branch], branch
        elif luck < 0.68 and branch != "main" and branch not in model.came_from.values():
            graph.delete_branch(branch)
            del model.heads[branch], model.came_from[branch]
        elif luck < 0.72:
            if graph.optimize(branch=branch).commit is not None:
                head = model.heads[branch]
                model.commit(branch, model.states[head], head)
        elif len(model.heads) > 1:
            source = chance.choice([n for n in sorted(model.heads) if n != branch])
            merge(chance, graph, model, source, branch, met, where)
        for name in model.heads:
            assert content(graph, name) == model.states[model.heads[name]], f"{where}: {name}"
    assert graph.verify(deep=True).is_sound
    return met


def write(chance: random.Random, graph, model: Model, branch: str) -> None:
    state = dict(model.states[model.heads[branch]])
    id = f"i{chance.randrange(12)}"
    if id in state and chance.random() < 0.3:
        graph.mutate(f'query q() {{ delete Item where slug = "{id}" }}', branch=branch)
        del state[id]
    else:
        state[id] = chance.randrange(3)
        row = {"type": "Item", "data": {"slug": id, "value": state[id]}}
        graph.load([row], "merge", branch=branch)
    model.commit(branch, state, model.heads[branch])


def merge(
    chance: random.Random,
    graph,
    model: Model,
    source: str,
    target: str,
    met: dict[str, int],
    where: str,
) -> None:
    outcome, state, conflicts = model.merge(source, target)
    preview = graph.merge(source, target, dry_run=True)
    assert preview.outcome == outcome, where
    assert {one.id for one in preview.conflicts} == conflicts, where
    met["criss_cross"] += len(preview.base_commit_ids) > 1
    rule = None
    if conflicts:
        met["conflicts"] += 1
        with pytest.raises(MergeConflicts):
            graph.merge(source, target)
        rule = chance.choice(["ours", "theirs", None])
        if rule is None:
            return
        theirs = model.states[model.heads[source]]
        for id in conflicts if rule == "theirs" else ():
            state.pop(id, None)
            if id in theirs:
                state[id] = theirs[id]
    done = graph.merge(source, target, resolve=rule)
    met[outcome] += 1
    assert done.outcome == outcome, where
    if outcome != "already_up_to_date":
        model.commit(target, state, model.heads[target], model.heads[source])


@pytest.mark.parametrize("seed", range(4))
def test_lives_of_branches_agree_with_the_model(tmp_path, seed):
    met = live(tmp_path / "graph", seed, 40)
    print(met)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 200))
def test_long_lives_of_branches_agree_with_the_model(tmp_path, seed):
    live(tmp_path / "graph", seed, 120)
