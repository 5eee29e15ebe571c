"""A program that follows a graph is killed again and again and has every change once.

It is killed as a whole, or one of the processes that Spark has started for it is: the one that asks
the source for offsets, or one that reads rows.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from history.generated_history import GeneratedHistory, applied

DRIVER = Path(__file__).with_name("replica_driver.py")
PATIENCE_S = 600


class Follower:
    """The program, its checkpoint, and its replica."""

    def __init__(self, graph, folder: Path) -> None:
        self._graph, self._folder = graph, folder
        self._log = folder / "program.log"

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen]:
        """The program in a group of its own, which is killed in the end with all its processes."""
        database = self._folder / "replica.db"
        with self._log.open("a") as log:
            process = subprocess.Popen(
                [sys.executable, DRIVER, self._graph.uri, self._folder / "checkpoint", database],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            for one in [process.pid, *list_helpers(process)]:
                kill(one)
            process.wait(600)

    def rows(self) -> list[tuple]:
        if not (self._folder / "replica.db").exists():
            return []
        with closing(sqlite3.connect(self._folder / "replica.db")) as kept:
            tables = kept.execute("select 1 from sqlite_master where name = 'changes'").fetchall()
            if not tables:
                return []
            found = kept.execute("select * from changes order by position, type, id").fetchall()
        return [row[1:] for row in found]

    def wait_for(self, process: subprocess.Popen, is_there) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_there(self.rows()):
            said = self._log.read_text()[-4000:]
            assert process.poll() is None, f"the program ended by itself:\n{said}"
            assert time.monotonic() < deadline, f"the stream makes no progress:\n{said}"
            time.sleep(0.05)


def list_helpers(program: subprocess.Popen) -> list[int]:
    """The processes of a program's session besides itself."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == program.pid:
            continue
        with suppress(OSError):  # it has ended since it was listed
            _, _, rest = (folder / "stat").read_text().rpartition(")")
            if int(rest.split()[3]) == program.pid:
                found.append(int(folder.name))
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_of_java(pid: int) -> bool:
    with suppress(OSError):
        return "(java)" in Path(f"/proc/{pid}/stat").read_text()
    return False


def in_wire_form(row: tuple) -> dict:
    _, _, name, id, op, *images = row
    sides = zip(("before", "after"), images, strict=True)
    texts = {side: json.loads(text) for side, text in sides if text is not None}
    return {"type": {"name": name}, "id": id, "op": op} | texts


def require_everything(generated: GeneratedHistory, rows: list[tuple]) -> None:
    """The rows are all changes of all commits, each once, and make up the graph."""
    reported = []
    position, caught_up = "beginning", False
    while not caught_up:
        page = generated.graph.changes(position)
        for block in page.blocks:
            reported += [
                (block.commit.commit_id, c.type_name, c.id, str(c.op)) for c in block.changes
            ]
        position, caught_up = page.position, bool(page.caught_up)
    assert sorted(row[1:5] for row in rows) == sorted(reported)
    replica: dict = {}
    for place in sorted({row[0] for row in rows}):
        replica = applied(replica, [in_wire_form(row) for row in rows if row[0] == place])
    assert replica == generated.states[generated.graph.commits()[0].commit_id]


def kill_and_follow(folder: Path, *, runs: int, helpers: int) -> None:
    """Run the program several times; in each run some of its helpers are killed first."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    generated = GeneratedHistory(folder / "g.omni", seed)
    generated.branches = _OnlyMain(generated.branches)
    follower, killed = Follower(generated.graph, folder), 0
    for _ in range(runs):
        with follower.running() as process:
            for turn in range(helpers + 1):
                before = len(follower.rows())
                generated.step()
                _write_a_row(generated, chance)
                follower.wait_for(process, lambda rows, before=before: len(rows) > before)
                time.sleep(chance.uniform(0, 1))
                alive = [pid for pid in list_helpers(process) if not is_of_java(pid)]
                if turn < helpers and alive:
                    kill(chance.choice(alive))
                    killed += 1
            killed += 1
        print(f"{killed} kills", flush=True)
    with follower.running() as process:
        _write_a_row(generated, chance)
        head = generated.graph.commits()[0].commit_id
        follower.wait_for(process, lambda rows: any(row[1] == head for row in rows))
    require_everything(generated, follower.rows())


class _OnlyMain(list):
    """Branches are forked, and later commits are on `main` alone."""

    def append(self, name: str) -> None: ...


def _write_a_row(generated: GeneratedHistory, chance: random.Random) -> None:
    """A commit that changes something for certain."""
    row = {"slug": f"last{chance.randrange(1 << 60)}"}
    generated.graph.load([{"type": "Place", "data": row}], "append")
    generated._keep("main")


@pytest.mark.slow
@pytest.mark.crash
def test_a_follower_that_is_killed_a_few_times_has_every_change_once(tmp_path: Path) -> None:
    kill_and_follow(tmp_path, runs=2, helpers=1)


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.crash
@pytest.mark.parametrize("part", range(8))
def test_a_follower_that_is_killed_hundreds_of_times_has_every_change_once(
    tmp_path: Path, part: int
) -> None:
    """Some of the kills each, so that it can be run in parts."""
    kill_and_follow(tmp_path, runs=3, helpers=9)
