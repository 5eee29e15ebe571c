"""Servers with many copies of an empty graph, so that every test has one of its own.

There is one server for each schema and terms; its graphs are byte for byte the same.
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
from omnigraph.language.source import SourceText
from omnigraph.policy import Policy, parse_bundle
from omnigraph.stored_queries import QueryRegistry, parse_registry
from server.serving import Server, serving

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


def token_of(actor: str) -> str:
    return f"token-of-{actor}"


@dataclass(frozen=True)
class Terms:
    """Under which graphs are used: the rules, who there is, and which queries are stored."""

    rules: str = RULES
    actors: tuple[str, ...] = ("act",)
    queries: str = ""
    is_guarded: bool = False
    """True if the rules apply to the library too."""

    @property
    def policy(self) -> Policy | None:
        return parse_bundle(SourceText(self.rules, "rules.yaml")) if self.is_guarded else None

    @property
    def registry(self) -> QueryRegistry | None:
        return parse_registry([SourceText(self.queries, "stored.gq")]) if self.queries else None


@dataclass
class ServedCopy:
    """A graph that only one test uses."""

    root: Path
    id: str
    server: Server

    _waiting: ClassVar[dict[tuple[str, Terms], list[ServedCopy]]] = {}
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
    def take(cls, schema: str, terms: Terms | None = None, copies: int = COPIES) -> ServedCopy:
        """The next copy; the first one of a schema starts a server with many."""
        chosen = terms or Terms()
        waiting = cls._waiting.setdefault((schema, chosen), [])
        if not waiting:
            waiting += cls._start(schema, chosen, copies)
        return waiting.pop()

    @classmethod
    def _start(cls, schema: str, terms: Terms, copies: int) -> list[ServedCopy]:
        folder = Path(cls._open.enter_context(tempfile.TemporaryDirectory()))
        first = folder / "g0.omni"
        omnigraph.init(first, schema).close()
        stores = [first]
        for number in range(1, copies):
            stores.append(folder / f"g{number}.omni")
            shutil.copytree(first, stores[-1])
        (folder / "rules.yaml").write_text(terms.rules)
        (folder / "stored.gq").write_text(terms.queries)
        flags = ("--policy", str(folder / "rules.yaml"))
        flags += ("--queries", str(folder / "stored.gq")) if terms.queries else ()
        tokens = {actor: token_of(actor) for actor in terms.actors}
        server = cls._open.enter_context(
            serving(
                *stores,
                flags=flags,
                OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=json.dumps(tokens),
            )
        )
        return [cls(store, store.stem, server) for store in stores]

    @classmethod
    def close_all(cls) -> None:
        """End every server."""
        cls._waiting.clear()
        cls._open.close()
