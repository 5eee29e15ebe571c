"""Operations killed before each single change of a file, by whatever library makes it.

Finer than the durable writes the code reports: a version that was written and not linked, a
branch with its folder and without its reference, half an object of ours.
"""

from __future__ import annotations

import random

import pytest

from crash.crash_checks import check
from crash.crash_scenario import OPEN
from crash.harness import side_by_side
from crash.kill_sequences import fresh, run_steps
from crash.sweep import Sweep
from crash.tracer import is_supported

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not is_supported(), reason="the kernel cannot ask us about system calls"),
]

PAIR = "insert_node_and_edge"
SAMPLE = 4


def test_a_write_cut_at_any_file_leaves_the_old_graph_or_the_new(
    workers, template, tmp_path, explored
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    sweep = Sweep(workers, template, tmp_path, PAIR, by_file=True)
    cuts = sorted(random.Random(seed).sample(range(len(sweep.writes)), SAMPLE))
    sweep.outcomes(cuts)
    explored.add("file", len(cuts))


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation",
    [
        PAIR,
        "delete_with_cascade",
        "load_overwrite",
        "first_write_on_a_branch",
        "create_branch_from_branch",
        "delete_branch",
    ],
)
def test_an_operation_cut_at_every_file_leaves_the_old_graph_or_the_new(
    workers, template, tmp_path, explored, operation
):
    sweep = Sweep(workers, template, tmp_path, operation, by_file=True)
    cuts = range(len(sweep.writes) + 1)
    found = sweep.outcomes(cuts)
    assert (found[0], found[-1]) == ("old", "new")
    explored.add("file", len(cuts))


@pytest.mark.slow
@pytest.mark.parametrize(("operation", "after"), [(PAIR, 4), ("first_write_on_a_branch", 4)])
def test_a_recovery_cut_at_every_file_is_finished_by_the_next_open(
    workers, template, tmp_path, explored, operation, after
):
    sweep = Sweep(workers, template, tmp_path, operation)

    def interrupted(name):
        place = fresh(template, tmp_path / name, operation)
        run_steps(workers, place, [(operation, after)])
        return place

    counted = interrupted("counted")
    changes = workers.run(counted, OPEN, by_file=True).writes
    expected = check(counted, sweep.allowed)

    def explore(cut):
        place = interrupted(f"open-{cut}")
        workers.run(place, OPEN, cut, by_file=True)
        return check(place, sweep.allowed)

    assert set(side_by_side(explore, range(len(changes) + 1))) == {expected}
    explored.add("file", len(changes) + 1)
