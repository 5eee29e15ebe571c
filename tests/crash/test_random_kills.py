"""A process that writes at random, killed at random: acknowledged writes stay."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import omnigraph
from crash.crash_checks import check, content_of
from crash.crash_scenario import create
from crash.expected_contents import ExpectedGraph
from crash.harness import environment

pytestmark = pytest.mark.crash

KILLS = 6
MANY_KILLS = 200


class RandomWorker:
    """A process that runs random operations, and its reports."""

    def __init__(self, place, seed, steps):
        self.acknowledged, self.tried = [], None
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(Path(__file__).with_name("random_worker.py")),
                str(place),
                str(seed),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        self._process.stdin.write("".join(json.dumps(step) + "\n" for step in steps))
        self._process.stdin.close()
        self._listener = threading.Thread(target=self._listen)
        self._listener.start()

    def _listen(self):
        for line in self._process.stdout:
            if line.strip():
                self.tried = json.loads(line)
            else:
                self.acknowledged.append(self.tried)
                self.tried = None
        self._process.stdout.close()

    def kill_after(self, operations, pause_s):
        """Wait for some operations to be acknowledged, then a little more, then kill."""
        while len(self.acknowledged) < operations and self._process.poll() is None:
            time.sleep(0.001)
        time.sleep(pause_s)
        assert self._process.poll() is None, "it ended by itself"
        self._process.kill()
        self._process.wait()
        self._listener.join()


def kill_again_and_again(place, kills, seed):
    dice = random.Random(seed)
    create(place)
    expected, steps = ExpectedGraph(), []
    assert content_of(omnigraph.open(place)) == expected.content()
    for _ in range(kills):
        worker = RandomWorker(place, dice.randrange(10**9), steps)
        worker.kill_after(dice.randrange(1, 4), dice.uniform(0, 0.1))
        for step in worker.acknowledged:
            expected = expected.after(step)
        steps += worker.acknowledged
        allowed = {"old": expected.content()}
        if worker.tried is not None:
            allowed["new"] = expected.after(worker.tried).content()
        if check(place, allowed) == "new":
            expected = expected.after(worker.tried)
            steps.append(worker.tried)
    return len(steps)


def test_killing_a_busy_writer_at_random_loses_nothing(tmp_path, explored):
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    kill_again_and_again(tmp_path / "town", KILLS, seed)
    explored.add("random", KILLS)


@pytest.mark.slow
def test_killing_a_busy_writer_at_random_many_times_loses_nothing(tmp_path, explored):
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    for number in range(MANY_KILLS // KILLS):
        kill_again_and_again(tmp_path / str(number), KILLS, seed + number)
    explored.add("random", MANY_KILLS)
