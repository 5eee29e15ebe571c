"""A process that runs jobs, each in a child that is killed, and reports their outcomes.

Loading the package takes far longer than a job, so it is loaded here once and used only by the
children, and the next child is always started ahead. One line of JSON in, one out.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress
from socket import SHUT_WR, recv_fds, socket, socketpair
from typing import Any

from commands.preloading import load_modules
from crash.single_operation import do
from crash.tracer import supervise

load_modules()


class Child:
    """A process that waits for its job."""

    def __init__(self) -> None:
        self._channel, theirs = socketpair()
        self._job: dict[str, Any] = {}
        self._pid = os.fork()
        if self._pid == 0:
            self._channel.close()
            _wait_and_work(theirs)
        theirs.close()

    def start(self, job: bytes) -> None:
        self._job = json.loads(job or b"{}")
        with suppress(BrokenPipeError):  # it died; `end` has the reason
            self._channel.sendall(job)
            self._channel.shutdown(SHUT_WR)

    def end(self) -> bytes:
        """Return how the process ended: the signal that killed it, and its output before."""
        files = []
        if self._job["by_file"]:
            _, (listener, *_), *_ = recv_fds(self._channel, len(b"listener"), 1)
            files = supervise(listener, self._job["place"], self._job["after"])
            os.close(listener)
        said = b"".join(iter(lambda: self._channel.recv(65536), b""))
        self._channel.close()
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return json.dumps({"code": code, "said": said.decode(), "files": files}).encode()


def _wait_and_work(channel: socket) -> None:
    os.close(0)
    try:
        line = b"".join(iter(lambda: channel.recv(65536), b""))
        if line:
            do(json.loads(line), channel)
    except BaseException:  # noqa: BLE001 - whatever it was, the test wants to know
        channel.sendall(traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def main() -> None:
    waiting = Child()
    for line in sys.stdin.buffer:
        working, waiting = waiting, None
        working.start(line)
        waiting = Child()
        sys.stdout.buffer.write(working.end() + b"\n")
        sys.stdout.buffer.flush()
    waiting.start(b"")


if __name__ == "__main__":
    main()
