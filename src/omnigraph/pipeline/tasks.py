"""The one primitive every stage is made of: many tasks, one kernel, small results.

`run` takes the name of a kernel, a specification shared by all tasks, and the tasks; it gives
their results in the order of the tasks. On Spark each task is one Spark task, retried and spread
by it; inline they run here, one after the other, through the same pickling.
"""

from __future__ import annotations

import pickle
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from omnigraph.errors import (
    BadRequest,
    InputError,
    NotFoundError,
    OmniError,
    StorageFailure,
    StorageKind,
)
from omnigraph.pipeline.complaints import reason_of
from omnigraph.pipeline.kernels.probe import describe
from omnigraph.pipeline.progress import watched
from omnigraph.pipeline.session import application_id, is_connect, is_local, parallelism
from omnigraph.progress import working

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "task long, result binary"

_checked: set[str] = set()
"""The applications whose executors were looked at."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long one stage took, and of how many tasks it was made."""

    stage: str
    seconds: float
    tasks: int

    def wire(self) -> dict[str, object]:
        return {"stage": self.stage, "seconds": round(self.seconds, 3), "tasks": self.tasks}


@dataclass(frozen=True, slots=True)
class Job:
    """Tasks of one kind: their kernel, what all of them share, and each one's own part."""

    kernel: str
    tasks: Sequence[object]
    spec: object


class Tasks(Protocol):
    """Where tasks run."""

    @property
    def engine(self) -> str: ...

    @property
    def application(self) -> str | None:
        """The name Spark gives the application, where there is one."""
        ...

    @property
    def parallelism(self) -> int: ...

    @property
    def times(self) -> list[StageTime]: ...

    def run(
        self, kernel: str, tasks: Sequence[object], spec: object, *, stage: str = ""
    ) -> list[Any]:
        """The results of all tasks, in their order.

        Args:
            kernel: `package.module:function`; called with the specification and one task.
            tasks: Plain data, one item for each task.
            spec: Plain data that every task gets.
            stage: What to call this in progress and timings.
        """
        ...

    def run_all(self, jobs: Sequence[Job], *, stage: str = "") -> list[list[Any]]:
        """The results of several jobs that do not depend on each other, run at the same time."""
        ...


def run_kernel(kernel: str, spec: object, task: object) -> tuple[str, object]:
    """The result of one task; what no second attempt would change is a result too."""
    module, _, name = kernel.partition(":")
    function: Callable[[object, object], object] = getattr(import_module(module), name)
    try:
        return "done", function(spec, task)
    except (InputError, NotFoundError) as refused:
        return "refused", _packed(refused)


def _results(outcomes: Sequence[tuple[str, Any]]) -> list[Any]:
    for kind, value in outcomes:
        if kind == "refused":
            raise _unpacked(*value)
    return [value for _, value in outcomes]


def _packed(error: OmniError) -> tuple[type[OmniError], tuple[Any, ...], dict[str, Any]]:
    """An error as plain data: few of them can be made anew from their message alone."""
    return type(error), error.args, dict(vars(error))


def _unpacked(kind: type[OmniError], args: tuple[Any, ...], members: dict[str, Any]) -> OmniError:
    error = kind.__new__(kind, *args)
    Exception.__init__(error, *args)
    vars(error).update(members)
    return error


def _divided(jobs: Sequence[Job], results: list[Any]) -> list[list[Any]]:
    """The results of all tasks, job by job."""
    ends = list(accumulate((len(job.tasks) for job in jobs), initial=0))
    return [results[start:end] for start, end in pairwise(ends)]


@dataclass
class InlineTasks:
    """Runs tasks in this process."""

    engine: str = "local"
    application: str | None = None
    parallelism: int = 1
    times: list[StageTime] = field(default_factory=list)

    def run(
        self, kernel: str, tasks: Sequence[object], spec: object, *, stage: str = ""
    ) -> list[Any]:
        return self.run_all([Job(kernel, tasks, spec)], stage=stage)[0]

    def run_all(self, jobs: Sequence[Job], *, stage: str = "") -> list[list[Any]]:
        started = time.monotonic()
        count = sum(len(job.tasks) for job in jobs)
        outcomes: list[tuple[str, object]] = []
        with working(stage, total=count, unit="tasks") as work:
            for job in jobs:
                shared = pickle.dumps(job.spec)
                for task in job.tasks:
                    given = pickle.loads(pickle.dumps(task))
                    outcomes.append(run_kernel(job.kernel, pickle.loads(shared), given))
                    work.advance()
        if count:
            self.times.append(StageTime(stage, time.monotonic() - started, count))
        return _divided(jobs, _results(outcomes))


@dataclass
class SparkTasks:
    """Runs tasks on a Spark session."""

    session: SparkSession
    engine: str = "spark"
    times: list[StageTime] = field(default_factory=list)

    def __post_init__(self) -> None:
        allow_missing_pandas()

    @property
    def application(self) -> str | None:
        return application_id(self.session)

    @property
    def parallelism(self) -> int:
        return parallelism(self.session)

    def run(
        self, kernel: str, tasks: Sequence[object], spec: object, *, stage: str = ""
    ) -> list[Any]:
        return self.run_all([Job(kernel, tasks, spec)], stage=stage)[0]

    def run_all(self, jobs: Sequence[Job], *, stage: str = "") -> list[list[Any]]:
        shared = [pickle.dumps((job.kernel, job.spec)) for job in jobs]
        parts = [
            (number, pickle.dumps(task)) for number, job in enumerate(jobs) for task in job.tasks
        ]
        if not parts:
            return [[] for _ in jobs]

        def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
            import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

            from omnigraph.pipeline.tasks import answer  # noqa: PLC0415

            for batch in batches:
                for place in batch.column(0).to_pylist():
                    number, task = parts[place]
                    kernel, spec = pickle.loads(shared[number])
                    yield answer(kernel, spec, task, place)

        count = len(parts)
        frame = self.session.range(0, count, 1, count).mapInArrow(body, _SCHEMA)
        return _divided(jobs, _results(self.collect(frame, stage, count)))

    def map_rows(
        self, frame: DataFrame, kernel: str, spec: object, *, stage: str = ""
    ) -> list[Any]:
        """The results of a kernel that takes the Arrow batches of one partition as its task.

        In the order of the partitions; their number is the first member of each result.
        """
        blob = pickle.dumps((kernel, spec))

        def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
            import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

            from pyspark import TaskContext  # noqa: PLC0415

            from omnigraph.pipeline.tasks import answer_rows  # noqa: PLC0415

            kernel, spec = pickle.loads(blob)
            context = TaskContext.get()
            place = context.partitionId() if context is not None else 0
            yield answer_rows(kernel, spec, batches, place)

        return _results(self.collect(frame.mapInArrow(body, _SCHEMA), stage, 0))

    def collect(self, frame: DataFrame, stage: str, count: int) -> list[tuple[str, object]]:
        """The answers of a frame of answers, in order, while progress is shown."""
        started = time.monotonic()
        group = f"omnigraph-{uuid4().hex[:12]}"
        try:
            with watched(self.session, stage, group, count):
                rows = frame.collect()
        except KeyboardInterrupt:
            _cancel(self.session, group)
            raise
        except Exception as error:
            raise _failure(stage, error) from error
        self.times.append(StageTime(stage, time.monotonic() - started, len(rows)))
        ordered = sorted(rows, key=lambda row: int(row[0]))
        return [pickle.loads(bytes(row[1])) for row in ordered]


def answer(kernel: str, spec: object, task: bytes, place: int) -> object:
    """The batch a Spark task gives back: its number, and its pickled outcome."""
    return _answer(place, run_kernel(kernel, spec, pickle.loads(task)))


def answer_rows(kernel: str, spec: object, batches: object, place: int) -> object:
    """The same for a task that is fed with rows."""
    return _answer(place, run_kernel(kernel, spec, (place, batches)))


def _answer(place: int, outcome: tuple[str, object]) -> object:
    import pyarrow as pa  # noqa: PLC0415 - the command line starts without Arrow

    columns = {
        "task": pa.array([place], pa.int64()),
        "result": pa.array([pickle.dumps(outcome)], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def allow_missing_pandas() -> None:
    """Let Spark hand over Arrow batches without pandas, which it asks for and does not use.

    Where pandas is installed, importing Arrow's datasets imports it, and every start of a Python
    worker takes twice as long; hence it is left out.
    """
    if find_spec("pandas") is not None:
        return
    import pyspark.sql.pandas.functions as functions  # noqa: PLC0415 - Spark is optional

    functions.require_minimum_pandas_version = lambda: None  # type: ignore[attr-defined]


def check_executors(session: SparkSession) -> None:
    """Raise unless executors have what kernels need, in the versions of this process.

    Where tasks run in this machine with this Python, there is nothing to ask.
    """
    if is_local(session) or application_id(session) in _checked:
        return
    allow_missing_pandas()

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import json  # noqa: PLC0415 - sent by value, and must run where nothing is installed
        import sys  # noqa: PLC0415
        from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        for batch in batches:
            found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
            for name in names:
                try:
                    found[name] = version(name)
                except PackageNotFoundError:
                    found[name] = ""
            text = json.dumps(found)
            count = batch.num_rows
            yield pa.RecordBatch.from_pydict({"found": pa.array([text] * count, pa.string())})

    here = describe(None, None)
    names = [name for name in here if name != "python"]
    count = max(1, parallelism(session))
    try:
        rows = session.range(0, count, 1, count).mapInArrow(body, "found string").collect()
    except Exception as error:
        missing = re.search(r"No module named '(\w+)", str(error))
        if missing is not None:
            raise _lacking({f"{missing.group(1)} is not installed there"}) from error
        raise _failure("looking at the executors", error) from error
    _compare({str(row[0]) for row in rows}, here)
    _checked.add(application_id(session))


def _compare(answers: set[str], here: dict[str, str | None]) -> None:
    import json  # noqa: PLC0415 - nothing else here needs it

    problems: set[str] = set()
    for text in answers:
        found = json.loads(text)
        if found["python"] != here["python"]:
            problems.add(f"they run Python {found['python']}, this process {here['python']}")
        for name in ("omnigraph", "pylance"):
            if found[name] and found[name] != here[name]:
                problems.add(f"they have {name} {found[name]}, this process {here[name]}")
        problems |= {f"{name} is not installed there" for name in here if not found[name]}
    if problems:
        raise _lacking(problems)


def _lacking(problems: set[str]) -> BadRequest:
    return BadRequest(
        "the Spark executors lack what the pipeline needs: "
        + "; ".join(sorted(problems))
        + ". Install the same packages in the image of the cluster, or send an environment "
        "with spark.archives."
    )


def _cancel(session: SparkSession, group: str) -> None:
    if is_connect(session):
        session.interruptTag(group)
    else:
        session.sparkContext.cancelJobGroup(group)


def _failure(stage: str, error: Exception) -> StorageFailure:
    reason = reason_of(error)
    return StorageFailure(StorageKind.UNKNOWN, f"{stage or 'a stage'} failed on Spark: {reason}")


def started_spark() -> bool:
    """Whether this process has loaded Spark."""
    return "pyspark.sql" in sys.modules
