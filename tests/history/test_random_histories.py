"""Random histories of branches that are written, merged, deleted and made again, against a model.

The model keeps every state there ever was and finds the base of a merge by itself.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

import omnigraph
from omnigraph.errors import BadRequest, MergeBaseUnavailable, MergeConflicts

SCHEMA = """
node Item { slug: String @key  a: I32?  b: I32?  c: I32?  d: I32? }
node Other { slug: String @key }
"""
NAMES = ("a", "b", "c", "d")
ABSENT, UNKNOWN = "absent", "unknown"
Row = dict[str, int | None]
State = dict[str, Row]
Base = dict[str, int | str | None] | str
"""A row, of which some properties may be unknown, or that the row is absent or unknown."""
Conflicts = dict[str, set[str]]
"""By entity, the properties in conflict; none where one side has no such entity."""


@dataclass
class Model:
    """Commits by number: their parents and their states. A branch is the number of its head."""

    parents: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    states: list[State] = field(default_factory=lambda: [{}])
    ids: list[str] = field(default_factory=list)
    """The id of each commit in the graph."""
    heads: dict[str, int] = field(default_factory=lambda: {"main": 0})
    came_from: dict[str, str] = field(default_factory=dict)

    def commit(self, branch: str, state: State, id: str, *parents: int) -> None:
        self.parents.append(parents)
        self.states.append(state)
        self.ids.append(id)
        self.heads[branch] = len(self.states) - 1

    def ancestors(self, commit: int) -> set[int]:
        found, waiting = {commit}, [commit]
        while waiting:
            fresh = set(self.parents[waiting.pop()]) - found
            found |= fresh
            waiting += fresh
        return found

    def newest(self, common: set[int]) -> list[int]:
        older = {parent for one in common for parent in self.parents[one]}
        return sorted(common - older, reverse=True)

    def merge(self, source: str, target: str, unit: str) -> tuple[str, Merge]:
        """The outcome, the merged state and the conflicts."""
        s, t = self.heads[source], self.heads[target]
        common = self.ancestors(s) & self.ancestors(t)
        if s in common:
            return "already_up_to_date", Merge({}, {}, self.states[t], self.states[t])
        bases = self.newest(common)
        ids = set().union(*self.states)
        base = {id: self.row_at(bases, id, unit) for id in ids}
        merged = Merge.of(base, self.states[s], self.states[t], unit)
        return "fast_forward" if t in common else "merged", merged

    def row_at(self, commits: list[int], id: str, unit: str) -> Base:
        """Return an entity after a merge of these commits, as far as it is determined."""
        first, *others = commits
        row, seen = self._row(first, id), self.ancestors(first)
        for other in others:
            theirs, reached = self._row(other, id), self.ancestors(other)
            if row != theirs:
                base = self.row_at(self.newest(seen & reached), id, unit)
                row = join(base, row, theirs, unit)
            seen |= reached
        return row

    def last_change(self, head: int, common: set[int], id: str, name: str | None) -> int:
        """The commit that made an entity, or a property of it, what it is.

        What both sides have is not looked into.
        """
        if head in common:
            return head
        now = self._value(head, id, name)
        alike = [p for p in self.parents[head] if self._value(p, id, name) == now]
        return max((self.last_change(p, common, id, name) for p in alike), default=head)

    def _row(self, commit: int, id: str) -> Row | str:
        return self.states[commit].get(id, ABSENT)

    def _value(self, commit: int, id: str, name: str | None) -> object:
        row = self._row(commit, id)
        return row if name is None or isinstance(row, str) else row[name]

    def decide(self, rule: str, source: int, target: int, merged: Merge, unit: str) -> None:
        """Let a rule decide about conflicts."""
        common = self.ancestors(source) & self.ancestors(target)
        for id, names in list(merged.conflicts.items()):
            whole = unit == "entity" or not names
            for name in [None] if whole else sorted(names):
                ours, theirs = (self.last_change(h, common, id, name) for h in (target, source))
                if rule == "theirs" or (rule == "newest" and theirs > ours):
                    take(merged.state, self.states[source], id, name)
            del merged.conflicts[id]


def take(state: State, source: State, id: str, name: str | None) -> None:
    if name is not None:
        state[id] = {**state[id], name: source[id][name]}
        return
    state.pop(id, None)
    if id in source:
        state[id] = source[id]


def join(base: Base, one: Base, other: Base, unit: str) -> Base:
    """Return what a merge of two rows would be."""
    if unit == "entity" or isinstance(one, str) or isinstance(other, str):
        if is_known(base) and base in (one, other):
            return other if base == one else one
        return UNKNOWN
    was = dict.fromkeys(NAMES, UNKNOWN) if isinstance(base, str) else base
    return {name: join_values(was[name], one[name], other[name]) for name in NAMES}


def join_values(base: object, one: object, other: object) -> object:
    if one == other:
        return one
    if base == UNKNOWN or base not in (one, other):
        return UNKNOWN
    return other if base == one else one


def is_known(row: Base) -> bool:
    return row != UNKNOWN if isinstance(row, str) else UNKNOWN not in row.values()


@dataclass
class Merge:
    """The result of merging a source into a target; a conflict retains the target's value."""

    base: dict[str, Base]
    conflicts: Conflicts
    source: State
    state: State

    @staticmethod
    def of(base: dict[str, Base], source: State, target: State, unit: str) -> Merge:
        merged = Merge(base, {}, source, dict(target))
        for id in base.keys() | source.keys() | target.keys():
            was = base.get(id, ABSENT)
            theirs, ours = source.get(id, ABSENT), target.get(id, ABSENT)
            if theirs in (ours, was):
                continue
            if ours == was:
                take(merged.state, source, id, None)
            elif isinstance(theirs, str) or isinstance(ours, str):
                merged.conflicts[id] = set()
            else:
                merged._join_rows(id, was, theirs, ours, unit)
        return merged

    def _join_rows(self, id: str, was: Base, theirs: Row, ours: Row, unit: str) -> None:
        old = dict.fromkeys(NAMES, UNKNOWN) if isinstance(was, str) else was
        unlike = {name for name in NAMES if theirs[name] != ours[name]}
        changed = {name for name in unlike if theirs[name] != old[name]}
        clash = {name for name in changed if ours[name] != old[name]}
        if unit == "entity":
            self.conflicts[id] = unlike
            return
        self.state[id] = {**ours, **{name: theirs[name] for name in changed - clash}}
        if clash:
            self.conflicts[id] = clash

    def add_up(self) -> None:
        """Decide conflicts by the sums of properties, where they have a base."""
        for id, names in list(self.conflicts.items()):
            base = self.base.get(id, ABSENT)
            for name in sorted(names):
                was = base.get(name) if isinstance(base, dict) else 0 if base == ABSENT else UNKNOWN
                if was != UNKNOWN:
                    ours, theirs = (side[id][name] or 0 for side in (self.state, self.source))
                    self.state[id] = {**self.state[id], name: ours + theirs - (was or 0)}
                    names.remove(name)
                    if not names:
                        del self.conflicts[id]


def content(graph, branch: str) -> State:
    rows = graph.nodes("Item", branch=branch).to_arrow().to_pylist()
    return {row["slug"]: {name: row[name] for name in NAMES} for row in rows}


def list_conflicts(preview) -> Conflicts:
    return {one.id: set(one.properties) for one in preview.conflicts}


def run_history(path, seed: int, steps: int) -> Counter[str]:
    chance, model = random.Random(seed), Model()
    graph = omnigraph.init(path, SCHEMA)
    model.ids.append(graph.commits()[0].commit_id)
    met = Counter[str]()
    for step in range(steps):
        where = f"seed {seed}, step {step}"
        branch = chance.choice(sorted(model.heads))
        luck = chance.random()
        if luck < 0.4:
            write(chance, graph, model, branch)
        elif luck < 0.52 and len(model.heads) < 5:
            name = chance.choice([n for n in ("a", "b", "c", "d") if n not in model.heads])
            graph.create_branch(name, source=branch)
            model.heads[name], model.came_from[name] = model.heads[branch], branch
        elif luck < 0.58 and branch != "main" and branch not in model.came_from.values():
            graph.delete_branch(branch)
            del model.heads[branch], model.came_from[branch]
        elif luck < 0.62:
            optimized = graph.optimize(branch=branch).commit
            if optimized is not None:
                head = model.heads[branch]
                model.commit(branch, model.states[head], optimized.commit_id, head)
        elif luck < 0.75:
            met[apply(chance, graph, model, branch, where)] += 1
        elif len(model.heads) > 1:
            source = chance.choice([n for n in sorted(model.heads) if n != branch])
            merge(chance, graph, model, source, branch, met, where)
        for name in model.heads:
            assert content(graph, name) == model.states[model.heads[name]], f"{where}: {name}"
    assert graph.verify(deep=True).is_sound
    return met


def write(chance: random.Random, graph, model: Model, branch: str) -> None:
    state = dict(model.states[model.heads[branch]])
    id = f"i{chance.randrange(8)}"
    if id in state and chance.random() < 0.2:
        done = graph.mutate(f'query q() {{ delete Item where slug = "{id}" }}', branch=branch)
        del state[id]
    else:
        names = chance.sample(NAMES, chance.choice([1, 1, 1, 2, 4]))
        values = {name: chance.choice([None, 0, 1, 2]) for name in names}
        state[id] = {**state.get(id, dict.fromkeys(NAMES)), **values}
        row = {"type": "Item", "data": {"slug": id, **values}}
        done = graph.load([row], "merge", branch=branch, partial=True)
    model.commit(branch, state, done.commit.commit_id, model.heads[branch])


def apply(chance: random.Random, graph, model: Model, branch: str, where: str) -> str:
    """Revert, pick or restore a commit that some branch can see."""
    head = model.heads[branch]
    seen = set().union(*(model.ancestors(one) for one in model.heads.values()))
    verb, number = chance.choice(["revert", "cherry_pick", "restore"]), chance.choice(sorted(seen))
    parents, now = model.parents[number], model.states[head]
    rule = chance.choice(["ours", "theirs", "newest"])
    unit = chance.choice(["property", "entity"])
    if verb == "restore":
        source, merged = number, Merge({}, {}, {}, dict(model.states[number]))
        run = lambda **given: graph.restore(model.ids[number], branch=branch, **given)  # noqa: E731
        rule = None
    elif not parents:
        return "no parent"
    else:
        which = chance.randrange(len(parents))
        base, source = number, parents[which]
        if verb == "cherry_pick":
            base, source = source, base
        merged = Merge.of(dict(model.states[base]), model.states[source], now, unit)
        run = lambda **given: getattr(graph, verb)(  # noqa: E731
            model.ids[number], branch=branch, parent=which + 1, granularity=unit, **given
        )
    where = f"{where}, {verb} of {number} on {branch} by {unit}"
    try:
        preview = run(dry_run=True)
    except (MergeBaseUnavailable, BadRequest):
        return "unavailable"  # its branch is deleted, and no other retains its state
    assert list_conflicts(preview) == merged.conflicts, where
    if merged.conflicts:
        with pytest.raises(MergeConflicts):
            run()
        model.decide(rule, source, head, merged, unit)
    try:
        done = run() if rule is None else run(resolve=rule)
    except MergeBaseUnavailable:  # the evidence was deleted with a branch
        assert rule == "newest", where
        return "unavailable"
    assert (done.outcome == "unchanged") == (merged.state == now), where
    if done.commit is not None:
        model.commit(branch, merged.state, done.commit.commit_id, head)
    return verb


def merge(
    chance: random.Random,
    graph,
    model: Model,
    source: str,
    target: str,
    met: Counter[str],
    where: str,
) -> None:
    unit = chance.choice(["property", "property", "entity"])
    outcome, merged = model.merge(source, target, unit)
    preview = graph.merge(source, target, dry_run=True, granularity=unit)
    assert preview.outcome == outcome, where
    assert list_conflicts(preview) == merged.conflicts, f"{where}, {source} to {target} by {unit}"
    met["criss_cross"] += len(preview.base_commit_ids) > 1
    rule = None
    if merged.conflicts:
        met["conflicts"] += 1
        with pytest.raises(MergeConflicts):
            graph.merge(source, target, granularity=unit)
        rule = chance.choice(["ours", "theirs", "newest", "sum", None])
        if rule is None:
            return
        met[rule] += 1
    resolve: list[str] | str | None = rule
    if rule == "sum":
        unit, resolve = "property", [f"Item.{name}=sum" for name in NAMES]
        _, merged = model.merge(source, target, unit)
        merged.add_up()
        preview = graph.merge(source, target, dry_run=True, resolve=resolve)
        assert list_conflicts(preview) == merged.conflicts, where
        if merged.conflicts:
            return
    elif rule is not None:
        model.decide(rule, model.heads[source], model.heads[target], merged, unit)
    try:
        done = graph.merge(source, target, resolve=resolve, granularity=unit)
    except MergeBaseUnavailable:  # the evidence was deleted with a branch
        assert rule == "newest", where
        met["unavailable"] += 1
        return
    met[outcome] += 1
    assert done.outcome == outcome, where
    if outcome != "already_up_to_date":
        parents = model.heads[target], model.heads[source]
        model.commit(target, merged.state, done.commit.commit_id, *parents)


@pytest.mark.parametrize("seed", range(4))
def test_histories_of_branches_agree_with_the_model(tmp_path, seed):
    print(run_history(tmp_path / "graph", seed, 40))


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 200))
def test_long_histories_of_branches_agree_with_the_model(tmp_path, seed):
    run_history(tmp_path / "graph", seed, 120)


# --- what belongs to one branch ---------------------------------------------------------------


def live_apart(path, seed: int, steps: int) -> int:
    """Branches that write only what is theirs, and merge each other all the time.

    Each has an entity of its own, and one property of an entity of all. So of two states of it one
    is always the later: no merge may conflict, whatever the histories look like. Gives how many
    merges had several bases.
    """
    chance = random.Random(seed)
    graph = omnigraph.init(path, SCHEMA)
    graph.load([{"type": "Item", "data": {"slug": "all"}}], "append")
    names = ["main", "a", "b", "c"]
    own = dict(zip(names, NAMES, strict=True))
    for name in names[1:]:
        graph.create_branch(name)
    known = {name: dict.fromkeys(names, 0) for name in names}
    crossed = 0
    for step in range(steps):
        where = f"seed {seed}, step {step}"
        branch, other = chance.sample(names, 2)
        if chance.random() < 0.4:
            known[branch][branch] += 1
            value = known[branch][branch]
            rows = [
                {"type": "Item", "data": {"slug": branch, "a": value}},
                {"type": "Item", "data": {"slug": "all", own[branch]: value}},
            ]
            if value % 3 == 0:
                query = f'query q() {{ delete Item where slug = "{branch}" }}'
                graph.mutate(query, branch=branch)
                del rows[0]
            graph.load(rows, "merge", branch=branch, partial=True)
        else:
            done = graph.merge(other, branch)
            crossed += len(done.base_commit_ids) > 1
            mine, theirs = known[branch], known[other]
            known[branch] = {name: max(mine[name], theirs[name]) for name in names}
        found, reached = content(graph, branch), known[branch]
        assert found.pop("all") == {own[name]: reached[name] or None for name in names}, where
        there = {name: value for name, value in reached.items() if value % 3}
        assert {name: row["a"] for name, row in found.items()} == there, where
    return crossed


@pytest.mark.parametrize("seed", range(2))
def test_branches_that_write_what_is_theirs_never_conflict(tmp_path, seed):
    assert live_apart(tmp_path / "graph", seed, 45) > 0


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 150))
def test_branches_that_write_what_is_theirs_never_conflict_for_long(tmp_path, seed):
    assert live_apart(tmp_path / "graph", seed, 300) > 0
