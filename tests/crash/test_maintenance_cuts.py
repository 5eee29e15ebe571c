"""Maintenance killed after each of its durable writes.

Optimizing and building indexes are among the operations of `test_durable_cuts`. Cleaning up and
repairing end in no visible step, so they are asked something else: the graph stays what it is,
and doing it again finishes it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import omnigraph
from crash.crash_checks import check, content_of, files_of
from crash.crash_scenario import CLEANUP, OPERATIONS, REPAIR
from crash.harness import side_by_side
from crash.kill_sequences import fresh, writes_of
from crash.sweep import Sweep
from crash.tracer import is_supported
from omnigraph.settings import Settings

pytestmark = pytest.mark.crash

SAMPLE = 3
MANY = 25
IMPATIENT = Settings(cleanup_grace_s=0)


class Cuts:
    """An operation without a visible change, cut at many points."""

    def __init__(self, workers, template, folder, operation, *, by_file=False):
        self._workers, self._template, self._folder = workers, template, folder
        self._operation, self._by_file = operation, by_file
        done = fresh(template, folder / "finished", operation)
        self.content = content_of(omnigraph.open(done, read_only=True))
        if by_file:
            self.writes = list(workers.run(done, operation, by_file=True).writes)
        else:
            self.writes = writes_of(done, operation)

    def cut(self, after: int) -> Path:
        place = fresh(self._template, self._folder / f"cut-{after}", self._operation)
        self._workers.run(place, self._operation, after, by_file=self._by_file)
        return place

    def finish(self, place: Path) -> None:
        OPERATIONS[self._operation].run(omnigraph.open(place, actor="finisher"))


def cleaned_for_good(place: Path) -> set[str]:
    """The files that remain after all unreferenced ones are removed."""
    for _ in range(3):
        omnigraph.open(place, settings=IMPATIENT).cleanup(keep=1, confirm=True)
    return {path.rpartition("/")[0] for path in files_of(place)}


def look_after_cleanup(cuts: Cuts, after: int) -> None:
    place = cuts.cut(after)
    assert content_of(omnigraph.open(place, read_only=True)) == cuts.content
    cuts.finish(place)
    assert check(place, {"same": cuts.content}, is_cleaned=True) == "same"
    assert omnigraph.open(place).verify(deep=True).findings == ()


@pytest.fixture
def cleanup_cuts(workers, template, tmp_path):
    return Cuts(workers, template, tmp_path, CLEANUP)


def test_a_cleanup_cut_anywhere_loses_nothing_and_can_be_finished(cleanup_cuts, explored):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    places = random.Random(seed).sample(range(len(cleanup_cuts.writes) + 1), SAMPLE)
    side_by_side(lambda after: look_after_cleanup(cleanup_cuts, after), places)
    explored.add("cleanup", SAMPLE)


@pytest.mark.slow
def test_a_cleanup_cut_everywhere_loses_nothing_and_can_be_finished(cleanup_cuts, explored):
    places = range(len(cleanup_cuts.writes) + 1)
    side_by_side(lambda after: look_after_cleanup(cleanup_cuts, after), places)
    explored.add("cleanup", len(places))


@pytest.mark.slow
@pytest.mark.skipif(not is_supported(), reason="the kernel cannot ask us about system calls")
def test_a_cleanup_cut_at_any_file_loses_nothing(workers, template, tmp_path, explored):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    cuts = Cuts(workers, template, tmp_path, CLEANUP, by_file=True)
    places = random.Random(seed).sample(range(len(cuts.writes)), MANY)
    side_by_side(lambda after: look_after_cleanup(cuts, after), places)
    explored.add("cleanup by file", MANY)


@pytest.mark.slow
@pytest.mark.skipif(not is_supported(), reason="the kernel cannot ask us about system calls")
@pytest.mark.parametrize("operation", ["optimize", "optimize_a_branch", "ensure_indices"])
def test_an_optimization_cut_at_any_file_leaves_the_old_graph_or_the_new(
    workers, template, tmp_path, explored, operation
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    sweep = Sweep(workers, template, tmp_path, operation, by_file=True)
    sweep.outcomes(sorted(random.Random(seed).sample(range(len(sweep.writes)), MANY)))
    explored.add("optimize by file", MANY)


@pytest.mark.slow
def test_leftovers_of_a_cut_cleanup_are_removed_by_the_next_ones(cleanup_cuts, tmp_path):
    whole = cleaned_for_good(cleanup_cuts.cut(0))
    middle = cleaned_for_good(cleanup_cuts.cut(len(cleanup_cuts.writes) // 2))
    assert len(middle) == len(whole)


def test_a_repair_cut_anywhere_is_done_or_can_be_done_again(workers, template, tmp_path, explored):
    cuts = Cuts(workers, template, tmp_path, REPAIR)
    for after in range(len(cuts.writes) + 1):
        place = cuts.cut(after)
        seen = content_of(omnigraph.open(place, read_only=True))
        rows = {name: records[:-1] for name, records in seen.items()}
        assert rows == {name: records[:-1] for name, records in cuts.content.items()}
        cuts.finish(place)
        assert check(place, {"healed": content_of(omnigraph.open(place))}) == "healed"
    explored.add("repair", len(cuts.writes) + 1)
