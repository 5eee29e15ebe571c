"""The daemon of Python workers: that of PySpark, without traces of finished tasks.

A task may end before its worker has written everything: the stage is cancelled, another attempt
was faster, the session is stopped. Its socket is closed then, and the worker cannot flush what it
wrote. PySpark prints a trace of that on the standard error stream, which is ours.

Nothing may be loaded here that starts threads: workers are forked from this program.
"""

from __future__ import annotations

import socket
import sys

from pyspark import daemon

_GONE = (BrokenPipeError, ConnectionResetError)
_work = daemon.worker


def _work_until_gone(sock: socket.socket, authenticated: bool) -> int:  # noqa: FBT001 - PySpark's
    """Run tasks; end with an exit code where Spark has closed the connection."""
    try:
        return _work(sock, authenticated)
    except _GONE:
        return 1


def _print_unless_gone(*words: object, **options: object) -> None:
    """Print an error as the daemon does, unless it is a closed connection."""
    if not isinstance(sys.exc_info()[1], _GONE):
        print(*words, **options)  # type: ignore[call-overload]  # noqa: T201


def run() -> None:
    daemon.worker = _work_until_gone
    daemon.print = _print_unless_gone  # type: ignore[attr-defined]
    daemon.manager()


if __name__ == "__main__":
    run()
