"""Does jobs, each in a child that is killed, and says what became of it.

Importing takes far longer than a job, so the next child is always started ahead. It is forked
from a process that has imported what is slow and harmless, and never Lance, whose threads a fork
would lose; the child imports the rest while it waits. One line of JSON in, one out.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module

for slow in ("pyarrow.compute", "pyarrow.dataset", "omnigraph.plan.compile"):
    import_module(slow)
assert not {"lance", "polars"} & sys.modules.keys(), "these start threads of their own"


class Child:
    """A process that has imported everything, or is about to, and waits for its job."""

    def __init__(self) -> None:
        job, self._job = os.pipe()
        self._answer, answer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._job)
            os.close(self._answer)
            _wait_and_work(job, answer)
        os.close(job)
        os.close(answer)

    def start(self, job: bytes) -> None:
        with suppress(BrokenPipeError):  # it could not even import; `end` tells why
            os.write(self._job, job)
        os.close(self._job)

    def end(self) -> bytes:
        """How it ended: the signal that killed it, and what it said before."""
        said = b"".join(iter(lambda: os.read(self._answer, 65536), b""))
        os.close(self._answer)
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        return json.dumps({"code": code, "said": said.decode()}).encode()


def _wait_and_work(job: int, answer: int) -> None:
    os.close(0)
    try:
        from crash.job import do

        line = b"".join(iter(lambda: os.read(job, 65536), b""))
        if line:
            do(json.loads(line), answer)
    except BaseException:  # noqa: BLE001 - whatever it was, the test wants to know
        os.write(answer, traceback.format_exc().encode())
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
