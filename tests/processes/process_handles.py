"""The graph the processes share, and handles to the processes themselves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("process_worker.py")

SCHEMA = """\
node Item { slug: String @key  by: String?  n: I64? }
node Bag { slug: String @key }
node Left { slug: String @key  mark: String }
node Right { slug: String @key  mark: String }
edge Has: Item -> Bag { by: String? }
"""
FIRST = [
    {"type": "Bag", "data": {"slug": "all"}},
    {"type": "Item", "data": {"slug": "one", "by": "nobody", "n": 0}},
]
PATIENCE_S = 600

FOLDER, BUCKET = "folder", "bucket"
PLACES = pytest.mark.parametrize(
    "place", [FOLDER, pytest.param(BUCKET, marks=pytest.mark.object_store)], indirect=True
)
"""Marks a test that runs on a graph in a folder and, on request, in a bucket."""


class Worker:
    """A process that works on a graph; events arrive while it does."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.events = []
        self._arrived = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self._process.pid

    @property
    def is_alive(self):
        return self._process.poll() is None

    def forget(self):
        """Start a new list of events, for the next test."""
        self.events = []

    def _listen(self):
        for line in self._process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line
                with self._arrived:
                    self.events.append(json.loads(line))
                    self._arrived.notify_all()
        with self._arrived:
            self._is_over = True
            self._arrived.notify_all()

    def start(self, do, **arguments):
        """Send a command without waiting for it."""
        self._seen = len(self.events)
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()

    def wait_for(self, word, since=0):
        """The first event with this word in it."""
        with self._arrived:
            found = []

            def is_there():
                found[:] = [e for e in self.events[since:] if word in e]
                return bool(found) or self._is_over

            assert self._arrived.wait_for(is_there, PATIENCE_S), f"no {word} in {self.events[-3:]}"
            assert found, f"the worker ended without {word}: {self.events[-3:]}"
            return found[0]

    @property
    def is_idle(self):
        return bool(self.events) and "done" in self.events[-1]

    def finish(self):
        """Everything the command sent last reported."""
        self.wait_for("done", self._seen)
        return self.events[self._seen : -1]

    def ask(self, do, **arguments):
        self.start(do, **arguments)
        return self.finish()

    def send(self, signal_number):
        self._process.send_signal(signal_number)

    def kill(self):
        """End it as a power failure would; gives everything it had reported."""
        self._process.kill()
        self._process.wait(timeout=PATIENCE_S)
        self._reader.join(timeout=PATIENCE_S)
        return self.events

    def close(self):
        if self.is_alive:
            self.send(signal.SIGCONT)
        self.kill()
        self._process.stdin.close()
        self._process.stdout.close()
