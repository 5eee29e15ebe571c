"""Every operation killed after each of its durable writes: the graph is the old or the new one.

By default a few cuts of each operation, chosen by a printed seed; all of them with
`-m "crash and slow"`.
"""

from __future__ import annotations

import random

import pytest

import omnigraph
from crash.checks import check, content_of
from crash.harness import side_by_side
from crash.stories import fresh, writes_of
from crash.town import LOAD_INTO_NEW_BRANCH, WRITES

pytestmark = pytest.mark.crash

SAMPLE = 2


class Sweep:
    """One operation, what the graph may be when it is interrupted, and where it can be."""

    def __init__(self, workers, template, folder, operation):
        self.workers, self.template, self.folder = workers, template, folder
        self.operation = operation
        finished = fresh(template, folder / "finished", operation)
        self.allowed = {"old": content_of(omnigraph.open(finished))}
        self.writes = writes_of(finished, operation)
        self.allowed["new"] = content_of(omnigraph.open(finished))

    def outcome(self, after):
        """What the graph is after a cut: "old" or "new"."""
        place = fresh(self.template, self.folder / f"cut-{after}", self.operation)
        ended = self.workers.run(place, self.operation, after)
        found = check(place, self.allowed)
        if ended.is_acknowledged:
            assert found == "new", f"{self.operation} was acknowledged and then lost"
        return found

    def outcomes(self, cuts):
        found = side_by_side(self.outcome, cuts)
        order = list(self.allowed)
        assert found == sorted(found, key=order.index), "a later cut gave an earlier graph"
        return found


@pytest.mark.parametrize("operation", WRITES)
def test_an_operation_cut_anywhere_leaves_the_old_graph_or_the_new(
    workers, template, tmp_path, explored, operation
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    sweep = Sweep(workers, template, tmp_path, operation)
    cuts = random.Random(seed).sample(range(len(sweep.writes) + 1), SAMPLE)
    sweep.outcomes(sorted(cuts))
    explored.add("operation", SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("operation", WRITES)
def test_an_operation_cut_everywhere_leaves_the_old_graph_or_the_new(
    workers, template, tmp_path, explored, operation
):
    sweep = Sweep(workers, template, tmp_path, operation)
    cuts = range(len(sweep.writes) + 2)
    found = sweep.outcomes(cuts)
    assert found[0] == "old"
    assert found[-2:] == ["new", "new"], "cut after its last write, and after its acknowledgement"
    explored.add("operation", len(cuts))


@pytest.mark.slow
def test_a_load_into_a_new_branch_is_cut_between_its_two_steps_or_around_them(
    workers, template, tmp_path, explored
):
    sweep = Sweep(workers, template, tmp_path, LOAD_INTO_NEW_BRANCH)
    old, new = sweep.allowed["old"], sweep.allowed["new"]
    sweep.allowed = {"old": old, "empty": {**old, "dev": old["main"]}, "new": new}
    found = sweep.outcomes(range(len(sweep.writes) + 2))
    assert set(found) == {"old", "empty", "new"}
    explored.add("operation", len(found))
