"""A real server in a process of its own, and a plain client for it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 600
PREFIX = "OMNIGRAPH_LISTEN_ADDR="
SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "photo": "base64:cGl4ZWxz"}},
    {"type": "Person", "data": {"name": "Ben", "age": None}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1"}},
]
ALL = "query all() { match { $p: Person } return { $p.name, $p.age } order { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def body(self):
        return json.loads(self.data)

    @property
    def lines(self) -> list:
        return [json.loads(line) for line in self.data.splitlines()]


@dataclass
class Server:
    """A running server; `graph` is the path before the routes of its first graph."""

    process: subprocess.Popen
    address: str
    graph: str
    errors: Path
    token: str | None = None
    _connections: threading.local = field(default_factory=threading.local)

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def log(self) -> str:
        return self.errors.read_text()

    def connect(self, timeout: float = TIMEOUT_S) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to one request; a path without a slash is one of the graph."""
        given = {name.lower(): value for name, value in (headers or {}).items()}
        chosen = self.token if token is None else token
        if chosen:
            given.setdefault("authorization", f"Bearer {chosen}")
        data = body
        if body is not None and not isinstance(body, bytes):
            data = json.dumps(body).encode()
            given.setdefault("content-type", "application/json")
        where = path if path.startswith("/") else f"{self.graph}/{path}"
        connection = self.connect()
        try:
            connection.request(method, where, data, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **given) -> Answer:
        return self.ask("GET", path, **given)

    def post(self, path: str, body: object = None, **given) -> Answer:
        return self.ask("POST", path, {} if body is None else body, **given)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return self.process.wait(TIMEOUT_S)


@contextmanager
def serving(
    *stores: object,
    flags: tuple[str, ...] = ("--unauthenticated",),
    token: str | None = None,
    graph: str = "people",
    **environment: str,
) -> Iterator[Server]:
    """A server of these stores, ended at the end whatever happened."""
    command = [sys.executable, "-m", "omnigraph.cli", "serve", "--bind", "127.0.0.1:0", *flags]
    for store in stores:
        command += ["--store", str(store)]
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder) / "log"
        with errors.open("wb") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMNIGRAPH_HOME": folder, **environment},
            )
        try:
            line = process.stdout.readline()
            if not line.startswith(PREFIX):
                process.wait(TIMEOUT_S)
                raise AssertionError(f"no server ({process.returncode}): {errors.read_text()}")
            address = line.strip().removeprefix(PREFIX)
            yield Server(process, address, f"/graphs/{graph}", errors, token)
        finally:
            end(process)
            process.stdout.close()


def end(process: subprocess.Popen) -> None:
    """End a server, gently first."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait(TIMEOUT_S)


def boot(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A server that does not start, and its output."""
    return subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", "serve", "--bind", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=TIMEOUT_S,
    )


def list_children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # it has ended since, or is no process
        if entry.name.isdigit() and int(fields[1]) == pid:
            found.append(int(entry.name))
    return found
