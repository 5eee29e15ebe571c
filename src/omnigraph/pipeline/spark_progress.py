"""Telling how far the tasks of a Spark job are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from omnigraph.pipeline.spark_session import is_connect
from omnigraph.progress import Work, working

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.3
_JOB_PROPERTIES = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
)


@contextmanager
def watch_jobs(session: SparkSession, stage: str, group: str, tasks: int) -> Iterator[None]:
    """Tell about the Spark jobs that run inside, and give them a name to cancel them by."""
    with (
        working(stage, total=tasks or None, unit="tasks") as work,
        _name_jobs(session, stage, group),
    ):
        if is_connect(session):
            yield
            return
        over = threading.Event()
        watcher = threading.Thread(
            target=_poll_jobs, args=(session, work, group, over), daemon=True
        )
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()


@contextmanager
def _name_jobs(session: SparkSession, stage: str, group: str) -> Iterator[None]:
    if is_connect(session):
        session.addTag(group)
        try:
            yield
        finally:
            session.removeTag(group)
        return
    context: Any = session.sparkContext
    context.setJobGroup(group, stage or "omnigraph", interruptOnCancel=True)
    try:
        yield
    finally:
        with suppress(Exception):  # Java may be gone, and then there is nothing to take back
            for name in _JOB_PROPERTIES:
                context.setLocalProperty(name, None)


def _poll_jobs(session: SparkSession, work: Work, group: str, over: threading.Event) -> None:
    tracker = session.sparkContext.statusTracker()
    while not over.wait(_POLL_SECONDS):
        with suppress(Exception):  # the job may end, and Java with it, while we ask
            done = _count_completed(tracker, group)
            if done > work.done:
                work.advance(done - work.done)


def _count_completed(tracker: Any, group: str) -> int:  # noqa: ANN401 - an object of Java
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage_id in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage_id)
            done += found.numCompletedTasks if found is not None else 0
    return done
