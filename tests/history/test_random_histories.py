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

SCHEMA = "node Item { slug: String @key  value: I32? }\nnode Other { slug: String @key }"
State = dict[str, int | None]
ABSENT, UNKNOWN = "absent", "unknown"


@dataclass
class Model:
    """Commits by number: their parents and their states. A branch is the number of its head."""

    parents: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    states: list[State] = field(default_factory=lambda: [{}])
    ids: list[str] = field(default_factory=list)
    """What the graph calls each commit."""
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

    def merge(self, source: str, target: str) -> tuple[str, State, set[str]]:
        """The outcome, the merged state and the ids in conflict."""
        s, t = self.heads[source], self.heads[target]
        common = self.ancestors(s) & self.ancestors(t)
        if s in common:
            return "already_up_to_date", self.states[t], set()
        bases = self.newest(common)
        ids = set().union(*self.states)
        base = {id: self.value_at(bases, id) for id in ids}
        state, conflicts = bring(base, self.states[s], self.states[t])
        return "fast_forward" if t in common else "merged", state, conflicts

    def value_at(self, commits: list[int], id: str) -> object:
        """Return the value of an entity after a merge of these commits, if it is determined."""
        first, *others = commits
        value, seen = self.states[first].get(id, ABSENT), self.ancestors(first)
        for other in others:
            theirs, reached = self.states[other].get(id, ABSENT), self.ancestors(other)
            if value != theirs:
                base = self.value_at(self.newest(seen & reached), id)
                if base == value != UNKNOWN:
                    value = theirs
                elif base != theirs:
                    value = UNKNOWN
            seen |= reached
        return value

    def last_change(self, head: int, common: set[int], id: str) -> int:
        """The commit that made an entity what it is; what both sides have is not looked into."""
        if head in common:
            return head
        alike = [p for p in self.parents[head] if self._value(p, id) == self._value(head, id)]
        return max((self.last_change(p, common, id) for p in alike), default=head)

    def _value(self, commit: int, id: str) -> object:
        return self.states[commit].get(id, ABSENT)

    def decide(self, rule: str, source: int, target: int, state: State, ids: set[str]) -> None:
        """Let a rule decide about conflicts."""
        common = self.ancestors(source) & self.ancestors(target)
        for id in ids:
            ours, theirs = (self.last_change(one, common, id) for one in (target, source))
            if rule == "theirs" or (rule == "newest" and theirs > ours):
                state.pop(id, None)
                if id in self.states[source]:
                    state[id] = self.states[source][id]


def bring(base: dict[str, object], source: State, target: State) -> tuple[State, set[str]]:
    """Apply the changes of the source since the base to the target, and return the conflicts."""
    result, conflicts = dict(target), set[str]()
    for id in base.keys() | source.keys() | target.keys():
        was = base.get(id, ABSENT)
        theirs, mine = source.get(id, ABSENT), target.get(id, ABSENT)
        if theirs in (mine, was):
            continue
        if mine != was:
            conflicts.add(id)
            continue
        result.pop(id, None)
        if id in source:
            result[id] = source[id]
    return result, conflicts


def content(graph, branch: str) -> State:
    rows = graph.nodes("Item", branch=branch).to_arrow().to_pydict()
    return dict(zip(rows["slug"], rows["value"], strict=True))


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
    id = f"i{chance.randrange(12)}"
    if id in state and chance.random() < 0.3:
        done = graph.mutate(f'query q() {{ delete Item where slug = "{id}" }}', branch=branch)
        del state[id]
    else:
        state[id] = chance.randrange(3)
        row = {"type": "Item", "data": {"slug": id, "value": state[id]}}
        done = graph.load([row], "merge", branch=branch)
    model.commit(branch, state, done.commit.commit_id, model.heads[branch])


def apply(chance: random.Random, graph, model: Model, branch: str, where: str) -> str:
    """Revert, pick or restore a commit that some branch can see."""
    head = model.heads[branch]
    seen = set().union(*(model.ancestors(one) for one in model.heads.values()))
    verb, number = chance.choice(["revert", "cherry_pick", "restore"]), chance.choice(sorted(seen))
    parents, now = model.parents[number], model.states[head]
    rule = chance.choice(["ours", "theirs", "newest"])
    if verb == "restore":
        source, state, conflicts = number, dict(model.states[number]), set[str]()
        run = lambda **given: graph.restore(model.ids[number], branch=branch, **given)  # noqa: E731
        rule = None
    elif not parents:
        return "no parent"
    else:
        which = chance.randrange(len(parents))
        base, source = number, parents[which]
        if verb == "cherry_pick":
            base, source = source, base
        state, conflicts = bring(model.states[base], model.states[source], now)
        run = lambda **given: getattr(graph, verb)(  # noqa: E731
            model.ids[number], branch=branch, parent=which + 1, **given
        )
    where = f"{where}, {verb} of {number} on {branch}"
    try:
        preview = run(dry_run=True)
    except (MergeBaseUnavailable, BadRequest):
        return "unavailable"  # its branch is gone, and nobody else kept what it was
    assert {one.id for one in preview.conflicts} == conflicts, where
    if conflicts:
        with pytest.raises(MergeConflicts):
            run()
        model.decide(rule, source, head, state, conflicts)
    try:
        done = run() if rule is None else run(resolve=rule)
    except MergeBaseUnavailable:  # what would tell went with a branch
        assert rule == "newest", where
        return "unavailable"
    assert (done.outcome == "unchanged") == (state == now), where
    if done.commit is not None:
        model.commit(branch, state, done.commit.commit_id, head)
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
        rule = chance.choice(["ours", "theirs", "newest", None])
        if rule is None:
            return
        met[rule] += 1
        model.decide(rule, model.heads[source], model.heads[target], state, conflicts)
    try:
        done = graph.merge(source, target, resolve=rule)
    except MergeBaseUnavailable:  # what would tell went with a branch
        assert rule == "newest", where
        met["unavailable"] += 1
        return
    met[outcome] += 1
    assert done.outcome == outcome, where
    if outcome != "already_up_to_date":
        parents = model.heads[target], model.heads[source]
        model.commit(target, state, done.commit.commit_id, *parents)


@pytest.mark.parametrize("seed", range(4))
def test_histories_of_branches_agree_with_the_model(tmp_path, seed):
    print(run_history(tmp_path / "graph", seed, 40))


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 200))
def test_long_histories_of_branches_agree_with_the_model(tmp_path, seed):
    run_history(tmp_path / "graph", seed, 120)


# --- an entity of one branch ------------------------------------------------------------------


def live_apart(path, seed: int, steps: int) -> int:
    """Branches that write only what is theirs, and merge each other all the time.

    So of two states of an entity one is always the later: no merge may conflict, whatever the
    histories look like. Gives how many merges had several bases.
    """
    chance = random.Random(seed)
    graph = omnigraph.init(path, SCHEMA)
    names = ["main", "a", "b", "c"]
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
            row = {"type": "Item", "data": {"slug": branch, "value": value}}
            if value % 3 == 0:
                query = f'query q() {{ delete Item where slug = "{branch}" }}'
                graph.mutate(query, branch=branch)
            else:
                graph.load([row], "merge", branch=branch)
        else:
            done = graph.merge(other, branch)
            crossed += len(done.base_commit_ids) > 1
            mine, theirs = known[branch], known[other]
            known[branch] = {name: max(mine[name], theirs[name]) for name in names}
        there = {name: value for name, value in known[branch].items() if value % 3}
        assert content(graph, branch) == there, where
    return crossed


@pytest.mark.parametrize("seed", range(2))
def test_branches_that_write_what_is_theirs_never_conflict(tmp_path, seed):
    assert live_apart(tmp_path / "graph", seed, 45) > 0


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 150))
def test_branches_that_write_what_is_theirs_never_conflict_for_long(tmp_path, seed):
    assert live_apart(tmp_path / "graph", seed, 300) > 0
