"""Open the Spark session of bulk work: of the caller, of the environment, or a new one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BadOptions, BadRequest, StorageFailure, StorageKind
from omnigraph.pipeline.spark_environment import (
    find_cache_folder,
    find_java,
    list_archive_options,
    make_launcher_home,
    require_master,
    require_server,
    require_spark,
)
from omnigraph.progress import Work, working
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ATTEMPTS = 4
"""Attempts of a task; with one, a killed worker would end the job."""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CONNECT_NEEDS = ("pandas", "grpc", "grpc_status", "zstandard")
_LOOPBACK = "127.0.0.1"


def spark(
    session: SparkSession | None = None,
    *,
    settings: Settings | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Open the session for bulk work.

    In this order: the one given; the one that is active in this process; a Spark Connect server
    (`SPARK_REMOTE`); a master (`OMNIGRAPH_SPARK_MASTER`, or `spark.master` in `conf`); all cores
    of this machine.

    Args:
        session: A session of the caller's, used as it is.
        settings: The Spark settings; by default those of the environment.
        conf: Spark options for a new session.

    Raises:
        MissingPackage: Spark is not installed.
        StorageFailure: Spark cannot be reached or does not start.
    """
    if session is not None:
        return session
    require_spark()
    chosen = settings or Settings.from_environment(os.environ)
    asked = dict(conf or {})
    active = find_active_session()
    if active is not None:
        return active
    if chosen.spark.remote:
        return _connect(chosen.spark.remote, asked)
    master = asked.pop("spark.master", None) or chosen.spark.master or f"local[*,{ATTEMPTS}]"
    require_master(master)
    return _open_classic_session(master, asked)


def parse_options(options: Sequence[str]) -> dict[str, str]:
    """Parse `key=value` options of a command line."""
    parsed = {}
    for option in options:
        key, sign, value = option.partition("=")
        if not sign or not key.strip():
            raise BadOptions(f"'{option}' is not a Spark option; write key=value")
        parsed[key.strip()] = value.strip()
    return parsed


def get_application_id(session: SparkSession) -> str:
    """Return the id of the application; for Spark Connect that of the session."""
    if is_connect(session):
        return str(session.session_id)  # type: ignore[attr-defined]
    return str(session.sparkContext.applicationId)


def is_connect(session: SparkSession) -> bool:
    """Return whether the session is a client of a remote server: no context, no listeners."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_local(session: SparkSession) -> bool:
    """Return whether tasks run on this machine with this Python."""
    if is_connect(session):
        return False
    master = str(session.sparkContext.master)
    return master.startswith("local") and not master.startswith("local-cluster")


def get_parallelism(session: SparkSession) -> int:
    """Return the number of tasks that run at the same time, as far as Spark reports it."""
    if is_connect(session):
        return int(session.conf.get("spark.sql.leafNodeDefaultParallelism", "8") or 8)
    return int(session.sparkContext.defaultParallelism)


def find_active_session() -> SparkSession | None:
    """Return the active session of this process, if any, without loading Spark."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession  # noqa: PLC0415 - loaded already

    found = SparkSession.getActiveSession()
    if found is None or is_connect(found):
        return found
    return found if found.sparkContext._jsc is not None else None


def _connect(remote: str, conf: Mapping[str, str]) -> SparkSession:
    missing = [name for name in _CONNECT_NEEDS if find_spec(name) is None]
    if missing:
        raise BadRequest(
            f"Spark Connect needs packages that are not installed ({', '.join(missing)}): "
            "pip install 'omnigraph[connect]'"
        )
    require_server(remote)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - two seconds, paid only where used

    builder = SparkSession.builder.remote(remote)
    for key, value in conf.items():
        builder = builder.config(key, value)
    with _start_classic_session(_find_java_home() if remote.startswith("local") else {}):
        return builder.getOrCreate()


def _find_java_home() -> dict[str, str]:
    """Build the environment of a Spark server started here: this Java, this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    home = make_launcher_home(find_java(os.environ), find_cache_folder(os.environ))
    return {"JAVA_HOME": str(home), "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", _LOOPBACK)}


@contextmanager
def _start_classic_session(changes: Mapping[str, str]) -> Iterator[None]:
    with _build_environment(changes), warnings.catch_warnings():
        # Starting Java forks and goes on to another program at once, which is safe.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        yield


def _open_classic_session(master: str, asked: Mapping[str, str]) -> SparkSession:
    conf = {**_list_defaults(master), **asked}
    cache = find_cache_folder(os.environ)
    changes = {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", _LOOPBACK)}
    if _is_starting_java():
        java = find_java(os.environ)
        changes["JAVA_HOME"] = str(make_launcher_home(java, cache))
        ours = " ".join([*_list_java_options(), *list_archive_options(java, cache)])
        conf[_JAVA_OPTIONS] = f"{ours} {asked.get(_JAVA_OPTIONS, '')}".strip()
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - two seconds, paid only where used

    with _start_classic_session(changes), _end_orphaned_java(), _translate_start_errors(master):
        builder = SparkSession.builder.master(master)
        for key, value in conf.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


@contextmanager
def _translate_start_errors(master: str) -> Iterator[None]:
    """Report a failed start of Spark in one line, and clean up after it."""
    from py4j.protocol import (  # type: ignore[import-untyped]  # noqa: PLC0415 - as above
        Py4JError,
    )
    from pyspark import SparkContext  # noqa: PLC0415 - as above
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    try:
        yield
    except (Py4JError, PySparkException) as error:
        half_started = SparkContext._active_spark_context
        if half_started is not None:
            half_started.stop()
        # Of no kind that storage has: advice about folders and retries would mislead.
        raise StorageFailure(
            StorageKind.UNKNOWN,
            f"Spark did not start with the master {master}: {extract_reason(error)}; nothing was "
            "changed. OMNIGRAPH_SPARK_MASTER, JAVA_HOME and --spark-conf say how it is started.",
        ) from error


@contextmanager
def _end_orphaned_java() -> Iterator[None]:
    """End a Java process whose start is abandoned, such as by an interrupt.

    It watches its parent only once it has reported its port; before that it would stay.
    """
    from pyspark import SparkContext, java_gateway  # noqa: PLC0415 - as above

    gateway: Any = java_gateway
    started: list[subprocess.Popen[bytes]] = []
    popen = gateway.Popen

    def start_noted(*args: Any, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401
        started.append(popen(*args, **options))
        return started[-1]

    gateway.Popen = start_noted
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
                process.wait()
        raise
    finally:
        gateway.Popen = popen


def _is_starting_java() -> bool:
    return "PYSPARK_GATEWAY_PORT" not in os.environ


def _list_java_options() -> list[str]:
    # Kernels leave Java little to do: the quick compiler and the plain collector start sooner.
    log = Path(__file__).with_name("log4j2.properties")
    return [
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xlog:disable",
        "-Xlog:all=error:stderr",
        f"-Dlog4j2.configurationFile={log.as_uri()}",
    ]


def _list_defaults(master: str) -> dict[str, str]:
    conf = {
        "spark.app.name": "omnigraph",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.driver.memory": "1g",
        "spark.task.maxFailures": str(ATTEMPTS),
    }
    if master.startswith("local"):
        cores = os.cpu_count() or 1
        conf |= {
            "spark.python.daemon.module": "omnigraph.pipeline.worker_daemon",
            "spark.driver.host": _LOOPBACK,
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.sql.shuffle.partitions": str(2 * cores),
        }
    return conf


@contextmanager
def _build_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables while a program is started, and restore them afterwards."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_POLL_SECONDS = 0.3
_JOB_PROPERTIES = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
)


@contextmanager
def watch_jobs(session: SparkSession, stage: str, group: str, tasks: int) -> Iterator[None]:
    """Report progress of the Spark jobs in the block, under a name to cancel them by."""
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


# --- errors of Spark ------------------------------------------------------------------------------


def extract_reason(error: Exception) -> str:
    """Extract the most specific line of an error of Spark, without the trace of Java."""
    lines = [line.strip(" :") for line in str(error).splitlines() if line.strip(" :")]
    named = [line for line in lines if _is_error_line(line)]
    return named[-1] if named else (lines[0] if lines else type(error).__name__)


def _is_error_line(line: str) -> bool:
    name = line.partition(":")[0]
    return name.replace(".", "").isidentifier() and name.endswith(("Error", "Failure", "Exception"))


def find_missing_module(error: Exception) -> str | None:
    """Find the module that an executor could not import, if that was the failure."""
    found = re.search(r"No module named '(\w+)", str(error))
    return found[1] if found is not None else None


def find_raised_text(error: Exception, start: str) -> str | None:
    """Return the text that `raise_error` reported, if it has this prefix and a word."""
    found = re.search(re.escape(start) + r" \w+", str(error))
    return found[0] if found is not None else None
