"""Every operation killed after each of its durable writes: the graph is the old or the new one.

By default a few cuts of each operation, chosen by a printed seed, also in a bucket with
`-m object_store`; all of them with `-m "crash and slow"`.
"""

from __future__ import annotations

import random

import pytest

from crash.crash_scenario import LOAD_INTO_NEW_BRANCH, WRITES
from crash.crash_stores import BUCKET, FOLDER
from crash.harness import side_by_side
from crash.sweep import Sweep

pytestmark = pytest.mark.crash

SAMPLE = 1
SAMPLED = [(operation, FOLDER) for operation in WRITES] + [
    pytest.param(operation, BUCKET, marks=pytest.mark.object_store)
    for operation, facts in WRITES.items()
    if not facts.is_prepared_once  # through a server it would take minutes
]


@pytest.mark.parametrize(("operation", "ground"), SAMPLED, indirect=["ground"])
def test_an_operation_cut_anywhere_leaves_the_old_graph_or_the_new(
    workers, ground, explored, operation
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    sweep = Sweep(workers, ground.template, ground.folder, operation)
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


SEVERAL_TABLES = pytest.mark.parametrize(
    "operation",
    [
        *("insert_node_and_edge", "delete_with_cascade", "load_merge", "load_overwrite"),
        "first_write_of_many_tables_on_a_branch",
    ],
)
"""Operations whose tables may move at the same time.

Which of them have moved at a cut is left to chance then; what the graph may be is not.
"""


@pytest.fixture
def tables_at_once(monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_WRITE_CONCURRENCY", "8")


@pytest.mark.usefixtures("tables_at_once")
@SEVERAL_TABLES
def test_a_cut_while_tables_move_at_once_leaves_the_old_graph_or_the_new(
    workers, template, tmp_path, explored, operation
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    sweep = Sweep(workers, template, tmp_path, operation)
    sweep.outcome(random.Random(seed).randrange(len(sweep.writes) + 1))
    explored.add("tables at once", 1)


@pytest.mark.slow
@pytest.mark.usefixtures("tables_at_once")
@SEVERAL_TABLES
def test_every_cut_while_tables_move_at_once_leaves_the_old_graph_or_the_new(
    workers, template, tmp_path, explored, operation
):
    sweep = Sweep(workers, template, tmp_path, operation)
    cuts = range(len(sweep.writes) + 2)
    found = side_by_side(sweep.outcome, cuts)
    assert found[0] == "old"
    assert found[-2:] == ["new", "new"], "cut after its last write, and after its acknowledgement"
    explored.add("tables at once", len(cuts))


def test_one_of_the_operations_merges_the_history(workers, template, tmp_path):
    sweep = Sweep(workers, template, tmp_path, "insert_that_merges_the_history")
    commits = [path for action, path in sweep.writes if action == "commit"]
    assert sum(path.endswith("__manifest") for path in commits) == 2


def test_one_of_the_operations_merges_small_fragments(workers, template, tmp_path):
    sweep = Sweep(workers, template, tmp_path, "insert_that_merges_small_fragments")
    assert [action for action, _ in sweep.writes].count("compact") == 1
