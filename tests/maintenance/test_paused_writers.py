"""A cleanup in one process while a writer is suspended in another, beyond the grace period."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crash.harness import environment
from maintenance.library_graph import rows_of, write_a_little
from maintenance.paused_writer import opened, shift_of
from maintenance.reference_marker import reach, substance
from omnigraph.settings import Settings
from omnigraph.storage.layout import HEARTBEATS, STAGING

IMPATIENT = Settings(cleanup_grace_s=0)
DAY = 86_400

LONG_WORK = [
    ("load", "after write_fragments", "*/__staging/*"),
    ("load", "after write_fragments", "*/nodes/*"),
    ("load a branch", "after create_branch", "*"),
    ("load a branch", "after write_fragments", "*/nodes/*"),
    ("optimize", "after compact", "*/nodes/*"),
    ("optimize", "after write_indices", "*/nodes/*"),
]


class SuspendedProcess:
    """A suspended process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def resume(self) -> str:
        """Resume the process and return its report."""
        os.kill(self._process.pid, signal.SIGCONT)
        out, err = self._process.communicate(timeout=600)
        assert self._process.returncode == 0, err
        return out.strip()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=600)


@contextmanager
def paused(place: Path, job: str, moment: str, path: str) -> Iterator[SuspendedProcess]:
    script = str(Path(__file__).with_name("paused_writer.py"))
    process = subprocess.Popen(
        [sys.executable, script, str(place), job, moment, path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"it never got there: {status}"
        yield SuspendedProcess(process)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def busy(place, library):
    """A graph with something to optimize, and a branch."""
    write_a_little(library)
    library.create_branch("dev")
    return library


def clean(place: Path, settings: Settings) -> None:
    for _ in range(3):
        done = opened(place, settings).cleanup(keep=1, confirm=True)
        assert [row.error for row in done.tables if row.error] == []


@pytest.mark.parametrize(("job", "moment", "path"), LONG_WORK)
def test_suspended_long_work_finds_all_its_files(place, busy, job, moment, path):
    before = {branch: len(rows_of(busy, branch)) for branch in ("main", "dev")}
    with paused(place, job, moment, path) as suspended:
        shift_of(place).write_text(str(2 * DAY))
        clean(place, IMPATIENT)
        assert suspended.resume() == "done"
    after = {branch: len(rows_of(opened(place), branch)) for branch in ("main", "dev")}
    loaded = {"load": "main", "load a branch": "dev"}.get(job)
    assert after == {name: rows + 50 * (name == loaded) for name, rows in before.items()}
    assert opened(place).verify(deep=True).findings == ()
    assert list((place / HEARTBEATS).iterdir()) == []


@pytest.mark.parametrize(("job", "moment", "path"), LONG_WORK[::2])
def test_leftovers_of_long_work_are_removed_once_it_is_dead(place, busy, job, moment, path):
    with paused(place, job, moment, path) as suspended:
        clean(place, IMPATIENT)
        suspended.kill()
    clean(place, IMPATIENT)
    assert list((place / HEARTBEATS).iterdir()) == []
    assert not (place / STAGING).exists() or list((place / STAGING).rglob("*.*")) == []
    found = reach(place, 1)
    assert substance(place) - found.needed - found.tolerated == set()
    assert opened(place).verify(deep=True).findings == ()


@pytest.mark.parametrize("moment", ["before write_fragments", "after write_fragments"])
def test_a_small_write_suspended_for_days_starts_over_if_it_must(place, busy, moment):
    before = rows_of(busy)
    with paused(place, "mutate", moment, "*/nodes/*") as suspended:
        clean(place, Settings())
        shift_of(place).write_text(str(DAY + 60))
        clean(place, Settings())
        assert suspended.resume() == "done"
    assert len(rows_of(opened(place))) == len(before) + 2
    assert opened(place).verify(deep=True).findings == ()


def test_a_small_write_suspended_for_less_is_not(place, busy):
    before = rows_of(busy)
    with paused(place, "mutate", "before write_fragments", "*/nodes/*") as suspended:
        clean(place, Settings())
        shift_of(place).write_text(str(DAY - 60))
        clean(place, Settings())
        assert suspended.resume() == "done"
    assert len(rows_of(opened(place))) == len(before) + 2
    assert opened(place).verify(deep=True).findings == ()
