"""A program that streams into a graph is killed again and again; every row arrives once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("stream_driver.py")
FILES, ROWS, KILLS = 60, 5, 20
PATIENCE_S = 600


def start(graph, inputs: Path, checkpoint: Path) -> subprocess.Popen:
    """The program in a group of its own, with all the processes Spark starts for it."""
    return subprocess.Popen(
        [sys.executable, DRIVER, graph.uri, inputs, checkpoint],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill(process: subprocess.Popen) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(600)
    process.stdout.close()


def wait_for_progress(graph, process: subprocess.Popen, head: str | None) -> bool:
    """Until the graph has a new commit; False if the program ended before."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if graph.commits()[0].commit_id != head:
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.05)
    raise AssertionError("the stream makes no progress")


@pytest.mark.slow
@pytest.mark.crash
def test_every_row_arrives_once_however_often_the_program_is_killed(empty, tmp_path):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    inputs, checkpoint = tmp_path / "inputs", tmp_path / "checkpoint"
    inputs.mkdir()
    written = []
    for number in range(FILES):
        texts = [f"{number}-{row}" for row in range(ROWS)]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (inputs / f"{number:03}.json").write_text(lines)
        written += texts
    killed = 0
    for _ in range(KILLS):
        process = start(empty, inputs, checkpoint)
        try:
            goes_on = wait_for_progress(empty, process, empty.commits()[0].commit_id)
            time.sleep(chance.uniform(0, 1.5))
        finally:
            kill(process)
        killed += goes_on
    last = start(empty, inputs, checkpoint)
    assert last.wait(600) == 0
    last.stdout.close()
    found = [row["text"] for row in empty.nodes("Note").to_arrow().to_pylist()]
    assert sorted(found) == sorted(written)
    assert killed >= 3, "most of the kills came while rows were written"
    assert empty.recovery_pending() == []
