"""Kernels that do their work and then fail once, or are slow once, after which they behave."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from omnigraph.errors import ExternalBlobPolicy
from omnigraph.pipeline.tasks import Job, SparkTasks


def fail_once(spec: tuple, task: object) -> object:
    kernel, inner, marker, way = spec
    value = kernel(inner, task)
    if _is_first(Path(marker)):
        if way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("fails once")
    return value


def linger_once(spec: tuple, task: object) -> object:
    """One task does its work and does not end before a copy of it has done the same work."""
    kernel, inner, folder = spec
    value = kernel(inner, task)
    lingering, copied = Path(folder) / "lingering", Path(folder) / "copied"
    if _is_first(lingering):
        lingering.write_text(repr(task))
        until = time.monotonic() + 600
        while not copied.exists() and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(5)  # the copy ends first
    elif lingering.read_text() == repr(task):
        copied.touch()
    return value


def refuse(spec: tuple, task: object) -> object:
    """Refuses its input with an error that has more than a message."""
    raise ExternalBlobPolicy(*spec)


def fail(spec: None, task: object) -> object:
    raise RuntimeError("fails every time")


def _is_first(marker: Path) -> bool:
    try:
        marker.open("x").close()
    except FileExistsError:
        return False
    return True


def failing_tasks(stage: str, marker: Path, way: str):
    """Tasks on Spark of which one fails in the given stage."""
    return _wrapping(fail_once, stage, str(marker), way)


def lingering_tasks(stage: str, folder: Path):
    """Tasks on Spark of which one waits in the given stage until Spark has run a copy of it."""
    return _wrapping(linger_once, stage, str(folder))


def _wrapping(around, wanted: str, *more: str):
    class Wrapping(SparkTasks):
        def run_all(self, jobs, *, stage=""):
            if stage == wanted:
                jobs = [Job(around, job.tasks, (job.kernel, job.spec, *more)) for job in jobs]
            return super().run_all(jobs, stage=stage)

        def map_rows(self, frame, kernel, spec, *, stage=""):
            if stage == wanted:
                kernel, spec = around, (kernel, spec, *more)
            return super().map_rows(frame, kernel, spec, stage=stage)

    return Wrapping
