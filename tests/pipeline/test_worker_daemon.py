"""The program that starts Python workers prints nothing when their reader has ended."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

OURS, THEIRS = "omnigraph.pipeline.worker_daemon", "pyspark.daemon"


def read_exactly(stream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = stream.read(size - len(data)) if hasattr(stream, "read") else stream.recv(size)
        assert piece, "the daemon ended"
        data += piece
    return data


def ask_and_leave(module: str, folder: str) -> str:
    """Return the output of a worker that is started and abandoned before it writes."""
    environment = {
        **os.environ,
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
        "SPARK_REUSE_WORKER": "1",
        "SPARK_AUTH_SOCKET_TIMEOUT": "15",
        "SPARK_BUFFER_SIZE": "65536",
    }
    command = [sys.executable, "-m", module, "pyspark.worker"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as daemon:
        try:
            (length,) = struct.unpack("!i", read_exactly(daemon.stdout, 4))
            place = read_exactly(daemon.stdout, length).decode()
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
                asking.connect(place)
                (worker,) = struct.unpack("!i", read_exactly(asking, 4))
            wait_until_gone(worker)
        finally:
            daemon.stdin.close()  # Spark ends it like this
            said = daemon.stderr.read().decode()
    return said


def wait_until_gone(pid: int) -> None:
    """A worker whose reader left ends by itself."""
    with suppress(FileNotFoundError, ProcessLookupError):
        while "zombie" not in Path(f"/proc/{pid}/status").read_text():
            time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at processes in /proc")
def test_a_worker_whose_reader_has_ended_leaves_no_trace() -> None:
    with TemporaryDirectory() as folder:  # the address of a socket has to be short
        assert ask_and_leave(OURS, folder) == ""
        said = ask_and_leave(THEIRS, folder)
    assert "BrokenPipeError" in said, "PySpark is quiet now by itself"
