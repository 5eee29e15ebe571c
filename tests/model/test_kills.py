"""Operations in processes that are killed at a durable write: the old state or the new one."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import omnigraph
from model import oracle
from model.model_strategies import operations
from model.oracle_driver import difference, read_state
from model.oracle_machine import make_template

pytestmark = pytest.mark.crash

WORKER = Path(__file__).with_name("model_kill_worker.py")
FEW_RUNS = settings(
    max_examples=6,
    deadline=None,
    print_blob=True,
    # Every step costs a process: a failure is reported as it was met.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def steps(count):
    one = st.tuples(operations, st.sampled_from(["main", "dev"]), st.integers(0, 12))
    return st.lists(one, min_size=count, max_size=count)


class Victims:
    """Processes waiting for an order; the next one starts while the last one works."""

    def __init__(self):
        self._next = self._start()

    def _start(self):
        return subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        )

    def carry_out(self, **order):
        """Let a process carry out an order, and return its exit code."""
        process, self._next = self._next, self._start()
        said, _ = process.communicate(json.dumps(order) + "\n", timeout=600)
        return process.returncode, said.split()

    def close(self):
        self._next.kill()
        self._next.communicate()


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return make_template(tmp_path_factory.mktemp("kills") / "template.omni")


@pytest.fixture(scope="module")
def victims():
    processes = Victims()
    yield processes
    processes.close()


def execute(template, victims, operations):
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-kills-"))
    place = shutil.copytree(template, folder / "graph.omni")
    omnigraph.open(place).create_branch("dev")
    try:
        for operation, branch, writes in operations:
            kill_one(place, victims, operation, branch, writes)
    finally:
        shutil.rmtree(folder)


def kill_one(place, victims, operation, branch, writes):
    before = omnigraph.open(place, read_only=True)
    old = read_state(before.export(branch=branch))
    other = "dev" if branch == "main" else "main"
    elsewhere = read_state(before.export(branch=other))
    commits = before.commits(branch)
    expected = oracle.predict(old, operation)
    code, said = victims.carry_out(
        place=str(place), operation=operation, branch=branch, writes=writes
    )
    assert code == -signal.SIGKILL or said[-1] == "survived", (code, said)
    after = omnigraph.open(place)
    found = read_state(after.export(branch=branch))
    is_new = isinstance(expected, oracle.Outcome) and difference(expected.state, found) is None
    assert found == old or is_new, difference(old, found)
    if code == 0 and isinstance(expected, oracle.Outcome):
        assert is_new, "acknowledged and lost"
    assert after.commits(branch)[-len(commits) :] == commits
    assert read_state(after.export(branch=other)) == elsewhere
    recovered = after.snapshot(branch)
    again = omnigraph.open(place)
    assert (again.recover(), again.snapshot(branch)) == ([], recovered)


def test_a_killed_operation_leaves_the_old_graph_or_the_new(template, victims):
    @FEW_RUNS
    @given(steps(2))
    def one_history(operations):
        execute(template, victims, operations)

    one_history()


@pytest.mark.slow
def test_many_killed_operations_leave_the_old_graph_or_the_new(template, victims):
    @settings(FEW_RUNS, max_examples=20)
    @given(steps(15))
    def one_history(operations):
        execute(template, victims, operations)

    one_history()
