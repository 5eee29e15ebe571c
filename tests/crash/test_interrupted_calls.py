"""Calls that end in the middle, as with Ctrl-C, in a process that continues."""

from __future__ import annotations

import random

import pytest

import omnigraph
from crash.crash_checks import check, content_of
from crash.crash_scenario import OPERATIONS, run
from crash.fault_points import At, fail, watched
from crash.kill_sequences import fresh, writes_of

SAMPLE = 3
SOME = ("insert_node_and_edge", "delete_with_cascade", "first_write_of_many_tables_on_a_branch")


class Later(At):
    """Acts only on what is written once it is armed."""

    is_armed = False

    def _meet(self, moment, action, path):
        if self.is_armed:
            super()._meet(moment, action, path)


class Interrupted:
    """An operation, and what the graph is before and after it."""

    def __init__(self, template, folder, operation):
        self._template, self._folder, self._operation = template, folder, operation
        finished = fresh(template, folder / "finished", operation)
        old = content_of(omnigraph.open(finished))
        self.writes = len(writes_of(finished, operation))
        self._allowed = {"old": old, "new": content_of(omnigraph.open(finished))}

    def cells(self):
        return [
            (moment, nth) for nth in range(1, self.writes + 1) for moment in ("before", "after")
        ]

    def meet(self, cell):
        """Interrupt the call at one of its writes; the same graph object remains in use."""
        moment, nth = cell
        place = fresh(self._template, self._folder / f"{moment} {nth}", self._operation)
        interrupt = Later(moment, "*", "*", fail(KeyboardInterrupt()), nth=nth)
        with watched(interrupt):
            graph = omnigraph.open(place, actor="impatient")
            interrupt.is_armed = True
            with pytest.raises(KeyboardInterrupt):
                OPERATIONS[self._operation].run(graph)
        assert content_of(graph) in self._allowed.values()
        run(graph, 'insert City {slug: "next", name: "N"}')
        assert graph.recovery_pending() == []
        run(graph, 'delete City where slug = "next"')
        check(place, {name: with_two_commits(found) for name, found in self._allowed.items()})


def with_two_commits(content):
    """Return the graphs with the two commits that were made to test whether writing works."""
    count = int(content["main"][-1].split()[0])
    return {**content, "main": (*content["main"][:-1], f"{count + 2} commits")}


@pytest.mark.parametrize("operation", SOME)
def test_an_interrupted_call_leaves_a_usable_graph(template, tmp_path, explored, operation):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    interrupted = Interrupted(template, tmp_path, operation)
    for cell in random.Random(seed).sample(interrupted.cells(), SAMPLE):
        interrupted.meet(cell)
    explored.add("interrupt", SAMPLE)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("operation", SOME)
def test_a_call_interrupted_anywhere_leaves_a_usable_graph(template, tmp_path, explored, operation):
    interrupted = Interrupted(template, tmp_path, operation)
    for cell in interrupted.cells():
        interrupted.meet(cell)
    explored.add("interrupt", len(interrupted.cells()))
