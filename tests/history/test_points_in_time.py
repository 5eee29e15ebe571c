"""Time travel: each commit reads as when it was created, or reports why it cannot."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import omnigraph
from omnigraph.errors import (
    BranchNotFound,
    CommitNotFound,
    HistoricalVersionReclaimed,
    OmniError,
)

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
TWO_STEPS = (
    "query q() { match { $p: Person  $p knows $f  $f knows $g } return { $p.name, $g.name } }"
)
BY_AGE = "query q() { match { $p: Person  $p.age > 5 } return { $p.name } }"


@pytest.fixture
def graph(tmp_path):
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    return omnigraph.init(tmp_path / "graph", SCHEMA, settings=settings)


class ExpectedBranch:
    """The expected content of a branch: ages by name, and who knows whom."""

    def __init__(self, ages=(), links=()):
        self.ages, self.links = dict(ages), set(links)

    def copy(self):
        return ExpectedBranch(self.ages, self.links)

    def change(self, graph, branch: str, dice: random.Random) -> None:
        """One random commit: an insert, an update, a delete with its edges, or an edge."""
        names = sorted(self.ages)
        kind = dice.choice(["insert", "update", "delete", "link", "unlink", "link"])
        if kind == "insert" or len(names) < 3:
            name = f"p{dice.randrange(10**9)}"
            self.ages[name] = dice.randrange(10)
            run(graph, f'insert Person {{ name: "{name}", age: {self.ages[name]} }}', branch)
        elif kind == "update":
            name = dice.choice(names)
            self.ages[name] = 10 + dice.randrange(10**6)
            run(
                graph,
                f'update Person set {{ age: {self.ages[name]} }} where name = "{name}"',
                branch,
            )
        elif kind == "delete":
            name = dice.choice(names)
            del self.ages[name]
            self.links = {pair for pair in self.links if name not in pair}
            run(graph, f'delete Person where name = "{name}"', branch)
        elif kind == "unlink" and self.links:
            source, target = dice.choice(sorted(self.links))
            self.links.remove((source, target))
            run(graph, f'delete Knows where from = "{source}" and to = "{target}"', branch)
        else:
            pair = (dice.choice(names), dice.choice(names))
            if pair in self.links:
                return
            self.links.add(pair)
            run(graph, f'insert Knows {{ from: "{pair[0]}", to: "{pair[1]}" }}', branch)

    def require_shown_by(self, view) -> None:
        found = {r["data"]["name"]: r["data"]["age"] for r in view.export(["Person"])}
        assert found == self.ages
        assert sorted((r["from"], r["to"]) for r in view.export(["Knows"])) == sorted(self.links)
        walked = [(row["p.name"], row["g.name"]) for row in view.query(TWO_STEPS).rows]
        ways = [(a, d) for a, b in self.links for c, d in self.links if b == c]
        assert sorted(walked) == sorted(ways)
        older = {row["p.name"] for row in view.query(BY_AGE).rows}
        assert older == {name for name, age in self.ages.items() if age > 5}


def run(graph, statements: str, branch: str = "main") -> None:
    graph.mutate(f"query q() {{ {statements} }}", branch=branch)


@pytest.mark.parametrize("seed", range(2))
def test_every_commit_of_two_branches_shows_rows_and_ways_as_they_were(graph, seed):
    """Warm and cold, after compactions and index builds, and by handles that were open before."""
    dice = random.Random(seed)
    expected = {"main": ExpectedBranch(), "dev": ExpectedBranch()}
    states: list[tuple[str, str, ExpectedBranch]] = []
    graph.create_branch("dev")
    for number in range(40):
        branch = dice.choice(["main", "dev"])
        expected[branch].change(graph, branch, dice)
        states.append((branch, graph.commits(branch)[0].commit_id, expected[branch].copy()))
        if number in (15, 30):
            graph.optimize(branch=branch)
    fresh = omnigraph.open(graph.uri)
    for branch, commit, content in dice.sample(states, 12):
        for reader in (graph, fresh):
            content.require_shown_by(reader.at(commit=commit))
            content.require_shown_by(reader.at(commit, branch=branch))
    for branch, content in expected.items():
        content.require_shown_by(fresh.branch(branch))


def test_a_branch_does_not_show_what_another_one_did_before_or_after(graph):
    graph.load([{"type": "Person", "data": {"name": "Ada", "age": 1}}], "append")
    shared = graph.commits()[0].commit_id
    graph.create_branch("dev")
    run(graph, "update Person set { age: 2 } where age = 1")
    run(graph, "update Person set { age: 3 } where age = 1", "dev")
    on_dev = graph.commits("dev")[0].commit_id
    run(graph, "update Person set { age: 4 } where age = 2")
    ages = [
        [r["data"]["age"] for r in view.export(["Person"])]
        for view in (graph.at(commit=shared), graph.at(commit=on_dev), graph.at(branch="dev"))
    ]
    assert ages == [[1], [3], [3]]
    assert [c.commit_id for c in graph.commits("dev")][1] == shared
    assert on_dev not in {c.commit_id for c in graph.commits()}


def test_a_version_that_cleanup_removed_is_reported_and_a_tagged_one_stays(graph):
    commits = []
    for age in range(4):
        graph.load([{"type": "Person", "data": {"name": "Ada", "age": age}}], "merge")
        commits.append(graph.commits()[0].commit_id)
    graph.tag("kept", commits[1])
    opened = {commit: graph.at(commit=commit) for commit in commits}
    graph.cleanup(keep=1, confirm=True)
    for reader in (graph, omnigraph.open(graph.uri)):
        for commit in (commits[0], commits[2]):
            with pytest.raises(HistoricalVersionReclaimed):
                list(reader.at(commit=commit).export())
        for place, age in ((commits[1], 1), ("kept", 1), (commits[3], 3)):
            assert [r["data"]["age"] for r in reader.at(place).export()] == [age]
    # A view from before shows its own state or says that it is gone, and never another one.
    for age, commit in enumerate(commits):
        try:
            assert [r["data"]["age"] for r in opened[commit].export()] == [age]
        except HistoricalVersionReclaimed:
            assert commit in (commits[0], commits[2])


def test_a_renamed_branch_retains_its_history_and_a_recreated_one_has_none(graph):
    graph.load([{"type": "Person", "data": {"name": "Ada", "age": 1}}], "append")
    graph.create_branch("dev")
    run(graph, "update Person set { age: 2 } where age = 1", "dev")
    commit = graph.commits("dev")[0].commit_id
    view = graph.at(branch="dev")

    graph.rename_branch("dev", "review")
    assert [r["data"]["age"] for r in graph.at(commit=commit).export()] == [2]
    assert [r["data"]["age"] for r in graph.at(commit, branch="review").export()] == [2]
    with pytest.raises(BranchNotFound):
        graph.at(commit, branch="dev")

    graph.delete_branch("review")
    graph.create_branch("review")
    run(graph, "update Person set { age: 7 } where age = 1", "review")
    for reader in (graph, omnigraph.open(graph.uri)):
        with pytest.raises(CommitNotFound):
            reader.at(commit=commit)
        assert [r["data"]["age"] for r in reader.at(branch="review").export()] == [7]
    with suppress(OmniError):  # its files may be removed, which is reported
        assert [r["data"]["age"] for r in view.export()] == [2]
