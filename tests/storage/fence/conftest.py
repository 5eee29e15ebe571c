"""Writer processes that tests can talk to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("fence_worker.py")


class WriterProcess:
    def __init__(self, *arguments, environment=None):
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )

    @property
    def pid(self):
        return self._process.pid

    def start(self, command):
        """Send a command without waiting for its answer."""
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def answer(self):
        return self._process.stdout.readline().strip()

    def ask(self, command):
        self.start(command)
        return self.answer()

    def kill(self):
        self._process.kill()
        self._process.wait(timeout=600)

    def send(self, signal_number):
        self._process.send_signal(signal_number)

    def close(self):
        self.send(signal.SIGCONT)
        self.kill()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def start_writer():
    """Starts writer processes and ends them after the test."""
    writers = []

    def start(*arguments, environment=None):
        writer = WriterProcess(*arguments, environment=environment)
        writers.append(writer)
        assert writer.answer() == "ready"
        return writer

    yield start
    for writer in writers:
        writer.close()
