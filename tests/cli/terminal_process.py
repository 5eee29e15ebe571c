"""A command on a terminal of its own, and what it draws there."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 600.0
_OWN_IT = """\
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that typing Ctrl-C interrupts
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A terminal as a person uses it: read the screen, type, wait for the end."""

    def __init__(self, screen: int, process: subprocess.Popen[bytes]) -> None:
        self._screen, self.process = screen, process
        self.seen, self._at = b"", 0

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until this is on the screen, behind what was waited for before."""
        wanted, deadline = text.encode(), time.monotonic() + PATIENCE_S
        while wanted not in self.seen[self._at :]:
            is_late = time.monotonic() > deadline
            assert not is_late and self._read(), f"{text!r} never came: {self.seen!r}"  # noqa: PT018
        self._at = self.seen.index(wanted, self._at) + len(wanted)

    def interrupt(self, text: str) -> None:
        """Press Ctrl-C for this to come, and again if it does not.

        Python forgets one that comes between the prompt and the wait for a key.
        """
        self.insist("\x03", text)

    def insist(self, typed: str, text: str) -> None:
        """Type something until this is on the screen: a late interrupt may have swallowed it."""
        give_up = time.monotonic() + PATIENCE_S
        while text.encode() not in self.seen[self._at :]:
            assert time.monotonic() < give_up, f"{text!r} never came: {self.seen!r}"
            self.type(typed)
            again = time.monotonic() + 5.0
            while text.encode() not in self.seen[self._at :] and time.monotonic() < again:
                self._read(0.1)
        self.wait_for(text)

    def wait_until_busy(self, seconds: float = 1.0) -> None:
        """Wait until the command has worked for so long, from now on.

        It is processor time that counts: on a busy machine a command with work to do may
        not even have begun after a second.
        """
        before, give_up = self._read_processor_seconds(), time.monotonic() + PATIENCE_S
        while self._read_processor_seconds() < before + seconds:
            assert time.monotonic() < give_up, f"it does not work: {self.seen!r}"
            self._read(0.05)

    def _read_processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> int:
        """Wait until the command ends; its exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self, patience_s: float = PATIENCE_S) -> bool:
        ready, _, _ = select.select([self._screen], [], [], patience_s)
        if not ready:
            return False
        try:
            data = os.read(self._screen, 1 << 16)
        except OSError:  # the other end is gone
            return False
        self.seen += data
        return bool(data)


@contextmanager
def on_a_terminal(*arguments: str, home: Path, **environment: str) -> Iterator[Terminal]:
    """Run the command with a terminal for stdin, stdout and stderr."""
    command = [sys.executable, "-m", "omnigraph.cli", *arguments]
    with program_on_a_terminal(*command, OMNIGRAPH_HOME=str(home), **environment) as terminal:
        yield terminal


@contextmanager
def program_on_a_terminal(
    *command: str, cwd: Path | None = None, **environment: str
) -> Iterator[Terminal]:
    """Run any program with a terminal of its own."""
    screen, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _OWN_IT, *command],
        stdin=child,
        stdout=child,
        stderr=child,
        start_new_session=True,
        cwd=cwd,
        env={**os.environ, "TERM": "xterm", **environment},
    )
    os.close(child)
    try:
        yield Terminal(screen, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(screen)
