"""Servers with many copies of an empty graph, so that every test has one of its own.

There is one server for each schema; its graphs are byte for byte the same.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import omnigraph
from server.serving import Server, serving

TOKEN = "token-of-act"
COPIES = 128
RULES = """\
version: 1
groups: { all: [act] }
rules:
  - id: everything
    allow:
      actors: { group: all }
      actions: [read, export, change, branch_create, branch_delete, branch_merge, schema_apply,
                invoke_query]
"""


@dataclass
class ServedCopy:
    """A graph that only one test uses."""

    root: Path
    id: str
    server: Server

    _waiting: ClassVar[dict[str, list[ServedCopy]]] = {}
    _open: ClassVar[ExitStack] = ExitStack()

    @property
    def url(self) -> str:
        return f"http://{self.server.address}/graphs/{self.id}"

    @property
    def host(self) -> str:
        return self.server.host

    @property
    def port(self) -> int:
        return self.server.port

    @classmethod
    def take(cls, schema: str, copies: int = COPIES) -> ServedCopy:
        """The next copy; the first one of a schema starts a server with so many."""
        waiting = cls._waiting.setdefault(schema, [])
        if not waiting:
            waiting += cls._start(schema, copies)
        return waiting.pop()

    @classmethod
    def _start(cls, schema: str, copies: int) -> list[ServedCopy]:
        folder = Path(cls._open.enter_context(tempfile.TemporaryDirectory()))
        first = folder / "g0.omni"
        omnigraph.init(first, schema).close()
        stores = [first]
        for number in range(1, copies):
            stores.append(folder / f"g{number}.omni")
            shutil.copytree(first, stores[-1])
        (folder / "rules.yaml").write_text(RULES)
        server = cls._open.enter_context(
            serving(
                *stores,
                flags=("--policy", str(folder / "rules.yaml")),
                OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=json.dumps({"act": TOKEN}),
            )
        )
        return [cls(store, store.stem, server) for store in stores]

    @classmethod
    def close_all(cls) -> None:
        """End every server."""
        cls._waiting.clear()
        cls._open.close()
