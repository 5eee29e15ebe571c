"""The library as a way into a graph: embedded, and connected to a server."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import omnigraph
from behaviour.served_copies import ServedCopy, Terms, token_of
from omnigraph.errors import OmniError

Lines = list[dict]


class Refused(Exception):
    """The verb failed; `body` is the error document and `code` its exit code."""

    def __init__(self, body: dict, code: int) -> None:
        super().__init__(body["error"])
        self.body, self.code = body, code


class SdkSurface:
    """The embedded library."""

    def __init__(self, root: Path) -> None:
        self.root = root

    actor = "act"
    terms: Terms = Terms()

    def acting_as(self, actor: str):
        """Return the surface as another actor."""
        other = copy.copy(self)
        other.actor = actor
        return other

    def _open(self, *, read_only: bool):
        policy, queries = self.terms.policy, self.terms.registry
        graph = omnigraph.open(self.root, read_only=read_only, actor=self.actor, policy=policy)
        return graph.with_queries(queries) if queries is not None else graph

    def _do(self, verb, *, read_only: bool = False):
        try:
            with self._open(read_only=read_only) as graph:
                return verb(graph)
        except OmniError as error:
            raise Refused(json.loads(json.dumps(error.wire())), error.exit_code) from error

    def init(self, schema: str) -> None:
        try:
            omnigraph.init(self.root, schema)
        except OmniError as error:
            raise Refused(error.wire(), error.exit_code) from error

    def load(
        self, lines: str, mode: str, branch: str = "main", base: str | None = None, match=()
    ) -> dict:
        given = {"branch": branch, "base": base, "match": match}
        return self._do(lambda g: g.load(lines.encode(), mode, **given).wire())

    def mutate(self, query: str, params=None, branch: str = "main", if_commit=None) -> dict:
        return self._do(
            lambda g: g.mutate(query, None, params, branch=branch, expected_head=if_commit).wire()
        )

    def query(self, query: str, params=None, branch="main", snapshot=None) -> dict:
        return self._do(
            lambda g: g.at(branch=branch, snapshot=snapshot).query(query, None, params).wire(),
            read_only=True,
        )

    def export(self, branch: str = "main", snapshot: str | None = None) -> Lines:
        return self._do(
            lambda g: list(g.at(branch=branch, snapshot=snapshot).export()), read_only=True
        )

    def snapshot(self, branch: str = "main") -> dict:
        return self._do(lambda g: g.snapshot(branch).wire(), read_only=True)

    def create_branch(self, name: str, source: str = "main") -> dict:
        return self._do(lambda g: g.create_branch(name, source=source).wire())

    def delete_branch(self, name: str) -> dict:
        return self._do(lambda g: g.delete_branch(name).wire())

    def merge(self, source: str, into: str = "main", **given) -> dict:
        return self._do(lambda g: g.merge(source, into, **given).wire())

    def branches(self) -> list[str]:
        return self._do(lambda g: g.branches(), read_only=True)

    def commits(self, branch: str = "main") -> Lines:
        return self._do(lambda g: [c.wire() for c in g.commits(branch)], read_only=True)

    def commit(self, commit_id: str) -> dict:
        return self._do(lambda g: g.commit(commit_id).wire(), read_only=True)

    def commit_changes(self, commit_id: str, types=()) -> dict:
        return self._do(lambda g: g.commit_changes(commit_id, types=types).wire(), read_only=True)

    def changes(self, position: str, branch: str = "main") -> dict:
        return self._do(lambda g: g.changes(position, branch=branch).wire(), read_only=True)

    def baseline(self, types=()) -> tuple[Lines, dict]:
        def read(graph):
            copy = graph.baseline(types=types)
            return list(copy.records()), copy.wire()

        return self._do(read, read_only=True)

    def schema(self) -> str:
        return self._do(lambda g: g.schema, read_only=True)

    def plan_schema(self, schema: str) -> dict:
        return self._do(lambda g: g.plan_schema(schema).wire(), read_only=True)

    def apply_schema(self, schema: str, *, dry_run: bool = False) -> dict:
        return self._do(lambda g: g.apply_schema(schema, dry_run=dry_run).wire())

    def explain(self, query: str) -> dict:
        return self._do(lambda g: g.at().explain_json(query), read_only=True)

    def lint(self, queries: str) -> dict:
        return self._do(lambda g: g.lint(queries).wire(), read_only=True)

    def blob_stat(self, kind: str, type_name: str, entity_id: str, property: str) -> dict:
        return self._do(
            lambda g: g.read_blob(type_name, entity_id, property, kind=kind).stat.wire(),
            read_only=True,
        )

    def blob(self, cell: tuple[str, ...], start: int | None = None, length=None) -> str:
        kind, type_name, entity_id, property = cell
        return self._do(
            lambda g: (
                g.read_blob(type_name, entity_id, property, kind=kind, start=start, length=length)
                .read()
                .hex()
            ),
            read_only=True,
        )

    def diff(self, before: str, after: str, *, images: bool = False) -> dict:
        def read(graph):
            found = graph.diff(before, after, images=images)
            return {**found.count().wire(), "changes": [one.wire() for one in found]}

        return self._do(read, read_only=True)

    def entity_history(self, type_name: str, entity_id: str) -> dict:
        return self._do(lambda g: g.entity_history(type_name, entity_id).wire(), read_only=True)

    def revert(self, commit: str, **given) -> dict:
        return self._do(lambda g: g.revert(commit, **given).wire())

    def cherry_pick(self, commit: str, **given) -> dict:
        return self._do(lambda g: g.cherry_pick(commit, **given).wire())

    def restore(self, place: str, **given) -> dict:
        return self._do(lambda g: g.restore(place, **given).wire())

    def tag(self, name: str, at: str | None = None) -> dict:
        return self._do(lambda g: g.tag(name, at).wire())

    def tags(self) -> Lines:
        return self._do(lambda g: [one.wire() for one in g.tags()], read_only=True)

    def delete_tag(self, name: str) -> dict:
        return self._do(lambda g: g.delete_tag(name).wire())

    def stored_queries(self) -> Lines:
        return self._do(lambda g: g.stored_queries(), read_only=True)

    def invoke_read(self, name: str, params=None, snapshot=None) -> dict:
        return self._do(
            lambda g: g.invoke(name, params, snapshot=snapshot, expect_mutation=False).wire(),
            read_only=True,
        )

    def invoke_mutation(self, name: str, params=None, branch="main", if_commit=None) -> dict:
        given = {"branch": branch, "expected_head": if_commit, "expect_mutation": True}
        return self._do(lambda g: g.invoke(name, params, **given).wire())


class ServedSurface:
    """A surface that leads through a server."""

    root: Path
    served: ServedCopy
    terms: Terms = Terms()

    def init(self, schema: str) -> None:
        """A copy of an empty graph that a server has."""
        if hasattr(self, "served"):
            SdkSurface(self.root).init(schema)
        self.served = ServedCopy.take(schema, self.terms)
        self.root = self.served.root


class ClientSurface(ServedSurface, SdkSurface):
    """The library, connected to a server."""

    def _open(self, *, read_only: bool):
        return omnigraph.connect(self.served.url, token=token_of(self.actor))
