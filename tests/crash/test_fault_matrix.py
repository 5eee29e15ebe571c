"""Every durable write of every operation failing: before its effect, after it, and from there on.

The writer continues and gets a result. If it reports a failure, nothing of it may be left,
unless the error itself says that this could not be found out.
"""

from __future__ import annotations

import random

import pytest

from crash.crash_checks import check, content_of, intents
from crash.crash_scenario import LOAD_INTO_NEW_BRANCH, OPERATIONS, WRITES
from crash.fault_points import watched
from crash.kill_sequences import fresh, writes_of
from omnigraph.errors import (
    OmniError,
    OutcomeUnknown,
    RecoveryRequired,
    StorageFailure,
    StorageKind,
)
from store_places import open_graph

BEFORE, AFTER, FROM_HERE_ON = "before", "after", "from here on"
WAYS = (BEFORE, AFTER, FROM_HERE_ON)
SAMPLE = 3
UNSURE = (RecoveryRequired, OutcomeUnknown)
HARMLESS = {"abandon", "finish_published"}
MAY_BE_LEFT = {"old": HARMLESS, "new": HARMLESS | {"roll_forward"}}
"""Compaction follows the visible write, and is left to the next writer."""


class Faulty:
    """Makes the n-th write of one thread fail, as the store or Lance would."""

    def __init__(self, nth: int, way: str) -> None:
        self._nth, self._way = nth, way
        self._met = 0
        self.is_over = True

    def before(self, action: str, path: str) -> None:
        if self.is_over:
            return
        self._met += 1
        is_hit = self._met == self._nth and self._way != AFTER
        if is_hit or (self._met > self._nth and self._way == FROM_HERE_ON):
            raise _failure(action, path)

    def after(self, action: str, path: str) -> None:
        if not self.is_over and self._met == self._nth and self._way == AFTER:
            self._nth = -1  # what is done about the failure is not counted again
            raise _failure(action, path)


def _failure(action: str, path: str) -> Exception:
    text = f"connection reset while doing {action} at {path}"
    is_object = not path.startswith("/")
    return StorageFailure(StorageKind.TRANSIENT, text) if is_object else OSError(text)


class Matrix:
    """One operation and everything that can fail in it."""

    def __init__(self, template, folder, operation):
        self.template, self.folder, self.operation = template, folder, operation
        finished = fresh(template, folder / "finished", operation)
        old = content_of(open_graph(finished))
        self.writes = writes_of(finished, operation)
        self.allowed = {"old": old, "new": content_of(open_graph(finished))}

    def cells(self):
        return [(nth, way) for nth in range(1, len(self.writes) + 1) for way in WAYS]

    def meet(self, cell):
        nth, way = cell
        place = fresh(self.template, self.folder / f"{nth} {way}", self.operation)
        faulty = Faulty(nth, way)
        with watched(faulty):
            graph = open_graph(place, actor="worker")
            faulty.is_over = False
            error = self._run(graph)
            faulty.is_over = True
        reported = "new" if error is None else "old"
        if not isinstance(error, UNSURE) and len(self.allowed) == 2:
            seen = content_of(open_graph(place, read_only=True))
            assert seen == self.allowed[reported], f"{self.writes[nth - 1]} {way}: {error!r}"
            pending = {one.decision for one in graph.recovery_pending()}
            assert pending <= MAY_BE_LEFT[reported], (self.writes[nth - 1], way)
        found = check(place, self.allowed)
        assert isinstance(error, UNSURE) or len(self.allowed) > 2 or found == reported
        assert intents(place) == []

    def _run(self, graph):
        try:
            OPERATIONS[self.operation].run(graph)
        except OmniError as error:
            return error
        return None


@pytest.mark.parametrize("operation", ["insert_node_and_edge", "delete_on_a_branch"])
def test_a_write_that_fails_at_any_step_says_so_and_leaves_nothing(
    template, tmp_path, explored, operation
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    matrix = Matrix(template, tmp_path, operation)
    cells = random.Random(seed).sample(matrix.cells(), SAMPLE)
    for cell in cells:
        matrix.meet(cell)
    explored.add("fault", len(cells))


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("operation", WRITES)
def test_every_step_of_every_operation_failing_in_every_way(
    template, tmp_path, explored, operation
):
    matrix = Matrix(template, tmp_path, operation)
    for cell in matrix.cells():
        matrix.meet(cell)
    explored.add("fault", len(matrix.cells()))


@pytest.mark.slow
@pytest.mark.crash
def test_every_step_of_a_load_into_a_new_branch_failing_in_every_way(template, tmp_path, explored):
    matrix = Matrix(template, tmp_path, LOAD_INTO_NEW_BRANCH)
    old, new = matrix.allowed["old"], matrix.allowed["new"]
    matrix.allowed = {"old": old, "empty": {**old, "dev": old["main"]}, "new": new}
    for cell in matrix.cells():
        matrix.meet(cell)
    explored.add("fault", len(matrix.cells()))
