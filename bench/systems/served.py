"""A server of a graph in a process of its own, and a client with a persistent connection."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.systems.changes import Change, Row
from bench.systems.small_graph import MUTATIONS, make_parameters, make_row

_PREFIX = "OMNIGRAPH_LISTEN_ADDR="
_TIMEOUT_S = 120
ARROW = "application/vnd.apache.arrow.stream"


@contextmanager
def serve(path: Path, workers: int = 1) -> Iterator[str]:
    """The address of a server of the graph; it is ended with the block."""
    command = [sys.executable, "-m", "omnigraph.cli", "serve", "--unauthenticated"]
    command += ["--store", f"{path}=bench", "--bind", "127.0.0.1:0", "--workers", str(workers)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None, "it is a pipe"
        line = process.stdout.readline()
        if not line.startswith(_PREFIX):
            raise RuntimeError("the server did not start")
        yield line.strip().removeprefix(_PREFIX)
    finally:
        process.terminate()
        process.wait(_TIMEOUT_S)
        if process.stdout is not None:
            process.stdout.close()


class ServedGraph:
    """The graph behind an address, over one connection."""

    def __init__(self, address: str) -> None:
        self._connection = HTTPConnection(address, timeout=_TIMEOUT_S)

    def query(self, text: str, parameters: Mapping[str, object] | None) -> list[list[Any]]:
        body = json.loads(self._post("query", {"query": text, "params": parameters}))
        return [list(row.values()) for row in body["rows"]]

    def query_arrow(self, text: str) -> pa.Table:
        data = self._post("query", {"query": text}, {"Accept": ARROW})
        return pa.ipc.open_stream(pa.py_buffer(data)).read_all()

    def apply(self, change: Change) -> None:
        given = {"query": MUTATIONS[change.kind], "params": make_parameters(change)}
        self._post("mutate", given)

    def rows(self) -> Iterable[Row]:
        lines = self._post("export", {}).splitlines()
        return (make_row(json.loads(line)) for line in lines)

    def close(self) -> None:
        self._connection.close()

    def _post(
        self, path: str, body: Mapping[str, object], headers: Mapping[str, str] | None = None
    ) -> bytes:
        given = {"Content-Type": "application/json", **(headers or {})}
        data = json.dumps(body).encode()
        self._connection.request("POST", f"/graphs/bench/{path}", data, given)
        answer = self._connection.getresponse()
        found = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered with {answer.status}: {found[:200]!r}")
        return found
