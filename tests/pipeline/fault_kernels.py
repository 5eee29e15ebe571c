"""A kernel that does its work and then fails once, after which it behaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from omnigraph.errors import ExternalBlobPolicy
from omnigraph.pipeline.tasks import Job, SparkTasks, run_kernel


def fail_once(spec: tuple, task: object) -> object:
    kernel, inner, marker, way = spec
    kind, value = run_kernel(kernel, inner, task)
    if _is_first(Path(marker)):
        if way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("fails once")
    assert kind == "done", value
    return value


def refuse(spec: tuple, task: object) -> object:
    """Refuses its input with an error that has more than a message."""
    raise ExternalBlobPolicy(*spec)


def _is_first(marker: Path) -> bool:
    try:
        marker.open("x").close()
    except FileExistsError:
        return False
    return True


def failing_tasks(stage: str, marker: Path, way: str):
    """Tasks on Spark of which one fails in the given stage."""

    class Failing(SparkTasks):
        def run_all(self, jobs, *, stage=""):
            if stage == wanted:
                jobs = [
                    Job(
                        "pipeline.fault_kernels:fail_once",
                        job.tasks,
                        (job.kernel, job.spec, str(marker), way),
                    )
                    for job in jobs
                ]
            return super().run_all(jobs, stage=stage)

    wanted = stage
    return Failing
