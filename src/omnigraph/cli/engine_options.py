"""Work that may run on Spark: its options as they are typed, and a log of its stages."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from omnigraph.cli.output import note
from omnigraph.cli.terminal import should_show_progress
from omnigraph.progress import Progress, listening, working


def parse_spark_options(texts: Sequence[str]) -> dict[str, str]:
    """What `--spark-conf` was given, by name; without any, nothing of Spark is loaded."""
    if not texts:
        return {}
    from omnigraph.pipeline.spark_session import parse_options

    return parse_options(texts)


@contextmanager
def report_spark_start(engine: str) -> Iterator[None]:
    """Say on the progress line that Spark is being started, until it has news of its own."""
    if engine != "spark":
        yield
        return
    with working("starting Spark"):
        yield


@contextmanager
def stage_log(*, quiet: bool) -> Iterator[None]:
    """One line on stderr when a stage ends, where no progress line is drawn."""
    if quiet or should_show_progress(sys.stderr):
        yield
        return

    def log(news: Progress) -> None:
        if news.is_over and news.unit == "tasks":
            note(f"{news.what}: {news.total or news.done} tasks")

    with listening(log):
        yield
