"""A master and two workers that look like two hosts, all of them processes of this machine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from omnigraph.pipeline.spark_environment import find_cache_folder, find_java, make_launcher_home

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_READY = re.compile(r"(spark://127\.0\.0\.1:\d+)")
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Addresses of the same machine; Spark takes them for two, and runs copies of a task on both."""


@contextmanager
def two_hosts(folder: Path) -> Iterator[str]:
    """The address of a master with one worker of one core on each host."""
    with ExitStack() as running:
        master = [_MASTER, "--host", HOSTS[0], "--port", "0", "--webui-port", "0"]
        running.enter_context(_process(master, folder / "master", HOSTS[0]))
        address = _wait_for(folder / "master.log", _READY)
        for number, host in enumerate(HOSTS):
            place = folder / f"worker-{number}"
            sizes = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "-d", str(place)]
            running.enter_context(_process([_WORKER, "--host", host, *sizes, address], place, host))
        yield address


@contextmanager
def _process(arguments: list[str], place: Path, host: str) -> Iterator[None]:
    home = Path(pyspark.__file__).parent
    java = make_launcher_home(find_java(os.environ), find_cache_folder(os.environ))
    environment = os.environ | {
        "JAVA_HOME": str(java),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": host,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    place.mkdir(parents=True)
    with place.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(600)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(log: Path, sign: re.Pattern[str]) -> str:
    until = time.monotonic() + 600
    while time.monotonic() < until:
        found = sign.search(log.read_text())
        if found is not None:
            return found.group(1)
        time.sleep(0.2)
    raise AssertionError(f"the master did not start:\n{log.read_text()}")
