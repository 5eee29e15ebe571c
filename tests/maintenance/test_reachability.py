"""Random graphs of branches, cleaned: nothing reachable is removed, and nothing else stays.

What can be reached is worked out by `reference_marker`, from the files alone.
"""

from __future__ import annotations

import random
import shutil

import pytest

import omnigraph
from maintenance.library_graph import (
    BOOK,
    READER,
    SCHEMA,
    book,
    entry,
    reader,
    rows_of,
    run,
    snapshot,
    table,
)
from maintenance.reference_marker import reach, substance, trees
from omnigraph.errors import OmniError
from omnigraph.settings import Settings
from omnigraph.storage.prepared_write import open_writable
from omnigraph.storage.tables.fragments import write_uncommitted

STEPS = 25
SETTINGS = Settings(cleanup_grace_s=0)


class RandomHistory:
    """A graph with a history of random operations."""

    def __init__(self, place, seed):
        self.place, self.chance = place, random.Random(seed)
        self.graph = omnigraph.init(place, SCHEMA, settings=SETTINGS)
        self.graph.load([book("a"), book("b"), reader("ann")], "append")
        self.names = 0

    def step(self):
        kinds = [self.write] * 8 + [self.fork, self.fork_from_commit, self.drop]
        kinds += [self.optimize, self.stray, self.zombie, self.clean]
        self.chance.choice(kinds)()

    def branch(self):
        return self.chance.choice(self.graph.branches())

    def fresh(self):
        self.names += 1
        return f"n{self.names}"

    def write(self):
        branch, name = self.branch(), self.fresh()
        match self.chance.randrange(4):
            case 0:
                self.graph.load(
                    [book(name, cover="base64:" + "QUJD" * 40_000)], "append", branch=branch
                )
            case 1:
                self.graph.load([reader(name), book(name)], "append", branch=branch)
            case 2:
                run(self.graph, f'update Book set {{title: "{name}"}} where slug = "a"', branch)
            case 3:
                run(
                    self.graph,
                    f'delete Book where title = "The n{self.names // 2} of time"',
                    branch,
                )

    def fork(self):
        self.graph.create_branch(self.fresh(), source=self.branch())

    def fork_from_commit(self):
        branch = self.branch()
        commit = self.chance.choice(self.graph.commits(branch))
        try:
            self.graph.create_branch(self.fresh(), source=branch, commit=commit.commit_id)
        except OmniError:
            return  # reclaimed before, or made on a branch that is gone

    def drop(self):
        names = [name for name in self.graph.branches() if name != "main"]
        if names:
            try:
                self.graph.delete_branch(self.chance.choice(names))
            except OmniError:
                return  # another one was made from it

    def optimize(self):
        self.graph.optimize(branch=self.branch())

    def stray(self):
        """Leave the files and the fork of a writer that dies while it prepares."""
        opened = table(self.graph, READER)
        write_uncommitted(opened, opened.scan().slice(0, 1))
        open_writable(snapshot(self.graph), entry(self.graph, BOOK, self.branch()))

    def zombie(self):
        """The folder of a branch whose reference is deleted."""
        writable = open_writable(snapshot(self.graph), entry(self.graph, READER, self.branch()))
        location = writable.table.location
        if location.branch is not None and writable.is_fork:
            reference = f"{location.uri}/_refs/branches/{location.branch}.json"
            (self.place / reference).unlink()

    def clean(self):
        self.cleaned(self.chance.choice([1, 2, 5]))

    def cleaned(self, keep):
        needed = reach(self.place, keep).needed
        content = {name: rows_of(self.graph, name) for name in self.graph.branches()}
        result = self.graph.cleanup(keep=keep, confirm=True)
        assert [row.error for row in result.tables if row.error] == []
        missing = [str(path) for path in needed if not path.exists()]
        assert missing == [], "something that can be reached was removed"
        fresh = omnigraph.open(self.place, read_only=True)
        assert {name: rows_of(fresh, name) for name in fresh.branches()} == content


def live(place, seed):
    print(f"seed {seed}")
    history = RandomHistory(place, seed)
    for _ in range(STEPS):
        history.step()
    keep = history.chance.choice([1, 3])
    for _ in range(3):  # the first lists orphan candidates, the next ones remove them
        history.cleaned(keep)
    found = reach(place, keep)
    kept = substance(place) - found.needed - found.tolerated
    assert sorted(map(str, kept)) == [], "something that nothing can reach was kept"
    assert trees(place) <= found.forks
    assert history.graph.verify(deep=True).findings == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_reachable_is_removed_and_nothing_else_stays(tmp_path, seed):
    live(tmp_path / "graph.omni", seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_nothing_reachable_is_removed_and_nothing_else_stays_in_many_histories(tmp_path, seed):
    live(tmp_path / "graph.omni", seed)
    shutil.rmtree(tmp_path / "graph.omni")
