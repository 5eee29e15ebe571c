"""Recoveries killed after each of their durable writes, and the recoveries of those.

A story is a list of processes, each killed at its place. Whatever the story, the graph is one
that a whole operation leads to, and the last open finds nothing left to do.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from crash.crash_checks import check, content_of
from crash.crash_scenario import DELETE_MEANWHILE, OPEN
from crash.crash_stores import GROUNDS
from crash.harness import side_by_side
from crash.kill_sequences import fresh, run_steps, writes_of
from omnigraph.storage.manifest.commit_records import RecoveryKind
from store_places import open_graph

pytestmark = pytest.mark.crash

PAIR = "insert_node_and_edge"
FORKS = "first_write_of_many_tables_on_a_branch"
PROBES = 2
"""Writes by which every open tries whether the store creates objects as it should."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """An operation killed after a certain write, and what recovering it comes to."""

    operation: str
    after: tuple[str, str, int]
    """The action, a part of the path, and which of several such writes."""
    kind: RecoveryKind | None
    branch: str = "main"

    def cut(self, writes):
        action, part, nth = self.after
        places = [at for at, (done, path) in enumerate(writes) if done == action and part in path]
        return places[nth - 1] + 1


RECOVERIES = {
    "abandoned": Recovery(PAIR, ("put", "__recovery", 1), RecoveryKind.ABANDONED),
    "rolled_back": Recovery(PAIR, ("commit", "/edges/", 1), RecoveryKind.ROLLED_BACK),
    "rolled_back_cascade": Recovery(
        "delete_with_cascade", ("commit", "/edges/", 2), RecoveryKind.ROLLED_BACK
    ),
    "rolled_forward": Recovery(PAIR, ("commit", "/nodes/", 1), RecoveryKind.ROLLED_FORWARD),
    "published": Recovery(PAIR, ("commit", "/__manifest", 1), None),
    "abandoned_forks": Recovery(
        FORKS, ("put", "__recovery", 1), RecoveryKind.ABANDONED, branch="dev"
    ),
    "rolled_back_forks": Recovery(
        FORKS, ("commit", "/edges/", 2), RecoveryKind.ROLLED_BACK, branch="dev"
    ),
    "rolled_forward_forks": Recovery(
        FORKS, ("commit", "/nodes/", 2), RecoveryKind.ROLLED_FORWARD, branch="dev"
    ),
    "rolled_back_on_a_branch": Recovery(
        "delete_on_a_branch", ("commit", "/edges/", 1), RecoveryKind.ROLLED_BACK, branch="dev"
    ),
}


class Stories:
    """Stories that begin with one operation on one graph."""

    def __init__(self, workers, template, folder, operation):
        self.workers, self.template, self.folder = workers, template, folder
        self.operation = operation
        finished = fresh(template, folder / "finished", operation)
        old = content_of(open_graph(finished))
        self.writes = writes_of(finished, operation)
        self.allowed = {"old": old, "new": content_of(open_graph(finished))}

    def replay(self, steps):
        """A graph on which the steps happened."""
        name = "-".join(f"{operation}.{after}" for operation, after in steps)
        place = fresh(self.template, self.folder / name, self.operation)
        run_steps(self.workers, place, steps)
        return place

    def end(self, steps):
        """Return the graph after the steps; everything about it has been checked."""
        return check(self.replay(steps), self.allowed)


def twice_cut(before, writes):
    """Every story in which an open is cut once, and every one in which the next is cut as well.

    The second does what the first did not; both try the store first, which changes nothing.
    """
    once = range(writes + 1)
    histories = [[*before, (OPEN, first)] for first in once]
    for first in once:
        left = writes - max(0, first - PROBES)
        histories += [
            [*before, (OPEN, first), (OPEN, second)] for second in range(PROBES + 1, left)
        ]
    return histories


@GROUNDS
def test_a_recovery_cut_once_is_finished_by_the_next_open(workers, ground, explored):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chosen = random.Random(seed).sample(sorted(RECOVERIES), 4)
    for name in chosen:
        recovery = RECOVERIES[name]
        stories = Stories(workers, ground.template, ground.folder / name, recovery.operation)
        first = (recovery.operation, recovery.cut(stories.writes))
        place = stories.replay([first])
        last = len(writes_of(place, OPEN))
        kinds = [a.kind for a in open_graph(place).recovery_list(recovery.branch)]
        assert kinds == ([recovery.kind] if recovery.kind else [])
        cut = random.Random(seed).randrange(last + 1)
        stories.end([first, (OPEN, cut)])
    explored.add("recovery", len(chosen))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECOVERIES)
def test_a_recovery_cut_anywhere_and_again_ends_as_one_that_was_not(
    workers, template, tmp_path, explored, name
):
    recovery = RECOVERIES[name]
    stories = Stories(workers, template, tmp_path, recovery.operation)
    first = (recovery.operation, recovery.cut(stories.writes))
    place = stories.replay([first])
    cuts = range(len(writes_of(place, OPEN)) + 1)
    expected = check(place, stories.allowed)
    kinds = [audit.kind for audit in open_graph(place).recovery_list(recovery.branch)]
    assert kinds == ([recovery.kind] if recovery.kind else [])
    histories = twice_cut([first], len(cuts) - 1)
    assert set(side_by_side(stories.end, histories)) == {expected}
    explored.add("recovery", len(histories))


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation", [PAIR, "delete_with_cascade", FORKS, "create_branch_from_commit", "delete_branch"]
)
def test_an_operation_cut_anywhere_and_its_recovery_cut_anywhere(
    workers, template, tmp_path, explored, operation
):
    """Every place of the first cut with a spread of places for the second."""
    stories = Stories(workers, template, tmp_path, operation)
    histories = [
        [(operation, first), (OPEN, second)]
        for first in range(len(stories.writes) + 1)
        for second in (PROBES + 1, PROBES + 3, PROBES + 5)
    ]
    side_by_side(stories.end, histories)
    explored.add("recovery", len(histories))


@pytest.mark.slow
def test_a_write_on_a_branch_and_the_deletion_of_the_branch_cut_anywhere(
    workers, template, tmp_path, explored
):
    stories = Stories(workers, template, tmp_path, FORKS)
    old, new = stories.allowed["old"], stories.allowed["new"]
    stories.allowed = {"old": old, "new": new, "gone": {"main": old["main"]}}
    histories = [
        [(FORKS, first), (DELETE_MEANWHILE, second)]
        for first in range(len(stories.writes) + 1)
        for second in (0, 1, 2, 4, 6, 9, None)
    ]
    found = side_by_side(stories.end, histories)
    assert set(found) == {"old", "new", "gone"}
    assert all(
        end == "gone" for end, steps in zip(found, histories, strict=True) if steps[1][1] is None
    )
    explored.add("discard", len(histories))


@pytest.mark.slow
def test_discarding_the_write_of_a_deleted_branch_cut_anywhere(
    workers, template, tmp_path, explored
):
    stories = Stories(workers, template, tmp_path, FORKS)
    stories.allowed = {"gone": {"main": stories.allowed["old"]["main"]}}
    at = Recovery(FORKS, ("commit", "/nodes/", 1), None).cut(stories.writes)
    # Deleting dies right after the mark and the removal of the name, so the intent stays.
    before = [(FORKS, at), (DELETE_MEANWHILE, 2)]
    place = stories.replay(before)
    cuts = range(len(writes_of(place, OPEN)) + 1)
    audits = open_graph(place).recovery_list()
    assert [audit.kind for audit in audits] == [RecoveryKind.ORPHANED_BRANCH_DISCARDED]
    histories = twice_cut(before, len(cuts) - 1)
    side_by_side(stories.end, histories)
    explored.add("discard", len(histories))
