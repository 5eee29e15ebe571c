"""Run tasks, on Spark or in this process: many tasks, one kernel, small results."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from uuid import uuid4

from omnigraph.errors import (
    BadRequest,
    EmbeddingFailed,
    InputError,
    NotFoundError,
    OmniError,
    StorageFailure,
    StorageKind,
)
from omnigraph.pipeline.spark_session import (
    extract_reason,
    find_missing_module,
    get_application_id,
    get_parallelism,
    is_connect,
    is_local,
    watch_jobs,
)
from omnigraph.progress import working
from omnigraph.result import Result

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a data frame; its rows can be read once."""

    number: int
    batches: Iterator[pa.RecordBatch]


Spec = TypeVar("Spec")
Task = TypeVar("Task")
Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)

_SCHEMA = "task long, result binary"

_checked: set[str] = set()
"""The applications whose executors were checked."""


class StageTime(Result, frozen=True):
    """Duration of one stage, and its number of tasks."""

    stage: str
    seconds: float
    tasks: int


@dataclass(frozen=True, slots=True)
class Job(Generic[Spec, Task, Value_co]):
    """Tasks of one kernel, and the specification they share."""

    kernel: Callable[[Spec, Task], Value_co]
    tasks: Sequence[Task]
    spec: Spec


@dataclass(frozen=True, slots=True)
class Done(Generic[Value_co]):
    """The result of a kernel."""

    value: Value_co


@dataclass(frozen=True, slots=True)
class Refused:
    """An error that a retry would not change, as plain data.

    Few errors can be rebuilt from their message alone, so all of their attributes are included.
    """

    kind: type[OmniError]
    args: tuple[Any, ...]
    members: dict[str, Any]

    @classmethod
    def of(cls, error: OmniError) -> Refused:
        return cls(type(error), error.args, dict(vars(error)))

    def error(self) -> OmniError:
        error = self.kind.__new__(self.kind, *self.args)
        Exception.__init__(error, *self.args)
        vars(error).update(self.members)
        return error


Outcome: TypeAlias = Done[Value] | Refused


class Tasks(Protocol):
    """Runner of tasks."""

    @property
    def engine(self) -> str: ...

    @property
    def application(self) -> str | None:
        """The id of the Spark application, if any."""
        ...

    @property
    def parallelism(self) -> int: ...

    @property
    def times(self) -> list[StageTime]: ...

    def run(
        self,
        kernel: Callable[[Spec, Task], Value],
        tasks: Sequence[Task],
        spec: Spec,
        *,
        stage: str = "",
    ) -> list[Value]:
        """Run tasks; return their results in order.

        Args:
            kernel: A function of a module; called with the specification and one task.
            tasks: Plain data, one item for each task.
            spec: Plain data that every task gets.
            stage: The name of the stage in progress reports and timings.
        """
        ...

    def run_all(
        self, jobs: Sequence[Job[Any, Any, Value]], *, stage: str = ""
    ) -> list[list[Value]]:
        """Run several independent jobs at the same time; return the results of each."""
        ...


def run_kernel(
    kernel: Callable[[Spec, Task], Value], spec: Spec, task: Task
) -> Done[Value] | Refused:
    """Run one task; an error that no second attempt would change is a result too."""
    try:
        return Done(kernel(spec, task))
    except (InputError, NotFoundError, EmbeddingFailed) as refused:
        return Refused.of(refused)


def _collect_results(outcomes: Sequence[Outcome[Value]]) -> list[Value]:
    results: list[Value] = []
    for outcome in outcomes:
        if isinstance(outcome, Refused):
            raise outcome.error()
        results.append(outcome.value)
    return results


def _divide_results(
    jobs: Sequence[Job[Any, Any, Value]], results: list[Value]
) -> list[list[Value]]:
    """Return the results of all tasks, job by job."""
    ends = list(accumulate((len(job.tasks) for job in jobs), initial=0))
    return [results[start:end] for start, end in pairwise(ends)]


class _OneJob:
    """Mixin that runs one job through `run_all`."""

    def run(
        self: Tasks,
        kernel: Callable[[Spec, Task], Value],
        tasks: Sequence[Task],
        spec: Spec,
        *,
        stage: str = "",
    ) -> list[Value]:
        return self.run_all([Job(kernel, tasks, spec)], stage=stage)[0]


@dataclass
class InlineTasks(_OneJob):
    """Runs tasks in this process."""

    engine: str = "local"
    application: str | None = None
    parallelism: int = 1
    times: list[StageTime] = field(default_factory=list)

    def run_all(
        self, jobs: Sequence[Job[Any, Any, Value]], *, stage: str = ""
    ) -> list[list[Value]]:
        started = time.monotonic()
        count = sum(len(job.tasks) for job in jobs)
        outcomes: list[Outcome[Value]] = []
        with working(stage, total=count, unit="tasks") as work:
            for job in jobs:
                shared = pickle.dumps((job.kernel, job.spec))
                for task in job.tasks:
                    kernel, spec = pickle.loads(shared)
                    given = pickle.loads(pickle.dumps(task))
                    outcomes.append(run_kernel(kernel, spec, given))
                    work.advance()
        if count:
            self.times.append(StageTime(stage, round(time.monotonic() - started, 3), count))
        return _divide_results(jobs, _collect_results(outcomes))


@dataclass
class SparkTasks(_OneJob):
    """Runs tasks on a Spark session."""

    session: SparkSession
    engine: str = "spark"
    times: list[StageTime] = field(default_factory=list)

    def __post_init__(self) -> None:
        allow_missing_pandas()

    @property
    def application(self) -> str | None:
        return get_application_id(self.session)

    @property
    def parallelism(self) -> int:
        return get_parallelism(self.session)

    def run_all(
        self, jobs: Sequence[Job[Any, Any, Value]], *, stage: str = ""
    ) -> list[list[Value]]:
        shared = [pickle.dumps((job.kernel, job.spec)) for job in jobs]
        parts = [
            (number, pickle.dumps(task)) for number, job in enumerate(jobs) for task in job.tasks
        ]
        if not parts:
            return [[] for _ in jobs]

        def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
            import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

            for batch in batches:
                for index in batch.column(0).to_pylist():
                    number, task = parts[index]
                    kernel, spec = pickle.loads(shared[number])
                    yield run_task(kernel, spec, pickle.loads(task), index)

        count = len(parts)
        frame = self.session.range(0, count, 1, count).mapInArrow(body, _SCHEMA)
        outcomes: list[Outcome[Value]] = self.collect(frame, stage, count)
        return _divide_results(jobs, _collect_results(outcomes))

    def map_rows(
        self,
        frame: DataFrame,
        kernel: Callable[[Spec, Partition], Value],
        spec: Spec,
        *,
        stage: str = "",
    ) -> list[Value]:
        """Run a kernel on the partitions of a frame; return the results in their order."""
        blob = pickle.dumps((kernel, spec))

        def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
            import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

            from pyspark import TaskContext  # noqa: PLC0415

            kernel, spec = pickle.loads(blob)
            context = TaskContext.get()
            index = context.partitionId() if context is not None else 0
            yield run_task(kernel, spec, Partition(index, batches), index)

        outcomes: list[Outcome[Value]] = self.collect(
            frame.mapInArrow(body, _SCHEMA), stage, count=0
        )
        return _collect_results(outcomes)

    def collect(self, frame: DataFrame, stage: str, count: int) -> list[Any]:
        """Collect the results of tasks, in order, while progress is shown."""
        started = time.monotonic()
        group = f"omnigraph-{uuid4().hex[:12]}"
        try:
            with watch_jobs(self.session, stage, group, count):
                rows = frame.collect()
        except KeyboardInterrupt:
            _cancel_group(self.session, group)
            raise
        except Exception as error:
            raise _make_failure(stage, error) from error
        self.times.append(StageTime(stage, round(time.monotonic() - started, 3), len(rows)))
        ordered = sorted(rows, key=lambda row: int(row[0]))
        return [pickle.loads(bytes(row[1])) for row in ordered]


def run_task(
    kernel: Callable[[Spec, Task], object], spec: Spec, task: Task, index: int
) -> pa.RecordBatch:
    """Run one task on Spark; return a batch of its number and its pickled outcome."""
    import pyarrow as pa  # noqa: PLC0415 - the command line starts without Arrow

    outcome = pickle.dumps(run_kernel(kernel, spec, task))
    columns = {"task": pa.array([index], pa.int64()), "result": pa.array([outcome], pa.binary())}
    return pa.RecordBatch.from_pydict(columns)


def allow_missing_pandas() -> None:
    """Let Spark pass Arrow batches without pandas, which it checks for and does not use.

    Where pandas is installed, importing Arrow's datasets imports it, and every start of a Python
    worker takes twice as long; hence it is left out.
    """
    if find_spec("pandas") is not None:
        return
    import pyspark.sql.pandas.functions as functions  # noqa: PLC0415 - Spark is optional

    functions.require_minimum_pandas_version = lambda: None  # type: ignore[attr-defined]


PACKAGES = ("omnigraph", "pylance", "pyarrow", "msgspec")


def describe(spec: object, task: object) -> dict[str, str | None]:
    """Return the versions of this process: Python without the patch, and those of packages."""
    del spec, task
    return {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        **read_package_versions(),
    }


def read_package_versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def check_executors(session: SparkSession) -> None:
    """Raise unless executors have the packages of kernels, in the versions of this process.

    If tasks run on this machine with this Python, nothing is checked.
    """
    if is_local(session) or get_application_id(session) in _checked:
        return
    allow_missing_pandas()

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import json  # noqa: PLC0415 - sent by value, and must run where nothing is installed
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
    count = max(1, get_parallelism(session))
    try:
        rows = session.range(0, count, 1, count).mapInArrow(body, "found string").collect()
    except Exception as error:
        missing = find_missing_module(error)
        if missing is not None:
            raise _find_lacking({f"{missing} is not installed there"}) from error
        raise _make_failure("checking the executors", error) from error
    _compare({str(row[0]) for row in rows}, here)
    _checked.add(get_application_id(session))


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
        raise _find_lacking(problems)


def _find_lacking(problems: set[str]) -> BadRequest:
    return BadRequest(
        "the Spark executors lack what the pipeline needs: "
        + "; ".join(sorted(problems))
        + ". Install the same packages in the image of the cluster, or send an environment "
        "with spark.archives."
    )


def _cancel_group(session: SparkSession, group: str) -> None:
    if is_connect(session):
        session.interruptTag(group)
    else:
        session.sparkContext.cancelJobGroup(group)


def _make_failure(stage: str, error: Exception) -> StorageFailure:
    reason = extract_reason(error)
    return StorageFailure(StorageKind.UNKNOWN, f"{stage or 'a stage'} failed on Spark: {reason}")
