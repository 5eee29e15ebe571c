"""Every way into a graph behind one shape, so that one list of cases runs through all of them.

A door answers with the JSON document of the verb, or raises `Refused` with the JSON error body.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import omnigraph
from commands.quick_command import quick_command
from omnigraph.errors import OmniError


class Refused(Exception):
    """The verb failed; `body` is the error document and `code` its exit code."""

    def __init__(self, body: dict, code: int) -> None:
        super().__init__(body["error"])
        self.body, self.code = body, code


class SdkDoor:
    """The embedded library."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _do(self, verb, *, read_only: bool = False):
        try:
            return verb(omnigraph.open(self.root, read_only=read_only, actor="act"))
        except OmniError as error:
            raise Refused(error.wire(), error.exit_code) from error

    def init(self, schema: str) -> None:
        try:
            omnigraph.init(self.root, schema)
        except OmniError as error:
            raise Refused(error.wire(), error.exit_code) from error

    def load(self, lines: str, mode: str, branch: str = "main", base: str | None = None) -> dict:
        return self._do(lambda g: g.load(lines.encode(), mode, branch=branch, base=base).wire())

    def mutate(self, query: str, params=None, branch: str = "main", if_commit=None) -> dict:
        return self._do(
            lambda g: g.mutate(query, None, params, branch=branch, expected_head=if_commit).wire()
        )

    def query(self, query: str, params=None, branch="main", snapshot=None) -> dict:
        return self._do(
            lambda g: g.at(branch=branch, snapshot=snapshot).query(query, None, params).wire(),
            read_only=True,
        )

    def export(self, branch: str = "main", snapshot: str | None = None) -> list[dict]:
        return self._do(
            lambda g: list(g.at(branch=branch, snapshot=snapshot).export()), read_only=True
        )

    def snapshot(self, branch: str = "main") -> dict:
        return self._do(lambda g: g.snapshot(branch).wire(), read_only=True)

    def create_branch(self, name: str, source: str = "main") -> dict:
        return self._do(lambda g: g.create_branch(name, source=source).wire())

    def delete_branch(self, name: str) -> dict:
        return self._do(lambda g: g.delete_branch(name).wire())

    def branches(self) -> list[str]:
        return self._do(lambda g: g.branches(), read_only=True)

    def commits(self, branch: str = "main") -> list[dict]:
        return self._do(lambda g: [c.wire() for c in g.commits(branch)], read_only=True)

    def commit(self, commit_id: str) -> dict:
        return self._do(lambda g: g.commit(commit_id).wire(), read_only=True)

    def schema(self) -> str:
        return self._do(lambda g: g.schema, read_only=True)

    def plan_schema(self, schema: str) -> dict:
        return self._do(lambda g: g.plan_schema(schema).wire(), read_only=True)

    def explain(self, query: str) -> dict:
        return self._do(lambda g: g.at().explain_json(query), read_only=True)

    def lint(self, queries: str) -> dict:
        return self._do(lambda g: g.lint(queries).wire(), read_only=True)

    def blob_stat(self, kind: str, type_name: str, entity_id: str, property: str) -> dict:
        return self._do(
            lambda g: g.read_blob(type_name, entity_id, property, kind=kind).stat.wire(),
            read_only=True,
        )


class CliDoor:
    """The real command, in a child process."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            quick_command(*arguments),
            input=stdin.encode(),
            capture_output=True,
            env={
                **os.environ,
                "OMNIGRAPH_HOME": str(self.root.parent),
                "OMNIGRAPH_LOAD_ENGINE": "local",
            },
            check=False,
            timeout=600,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        if done.returncode:
            raise Refused(json.loads(done.stdout), done.returncode)
        return done.stdout.decode()

    def _json(self, *arguments: str, stdin: str = "") -> dict:
        return json.loads(self._run(*arguments, "--json", stdin=stdin))

    def _on_graph(self, *arguments: str, stdin: str = "") -> dict:
        """The document without the address, which the library need not repeat."""
        body = self._json(*arguments, stdin=stdin)
        assert body.pop("uri") == str(self.root)
        return body

    @property
    def _store(self) -> tuple[str, str]:
        return ("--store", str(self.root))

    def init(self, schema: str) -> None:
        self._json("init", str(self.root), "--schema", "-", stdin=schema)

    def load(self, lines: str, mode: str, branch: str = "main", base: str | None = None) -> dict:
        extra = ("--from", base) if base else ()
        arguments = ("--data", "-", "--mode", mode, "--branch", branch, "--as", "act", *extra)
        body = self._json("load", str(self.root), *arguments, stdin=lines)
        body.pop("uri")
        return body

    def mutate(self, query: str, params=None, branch: str = "main", if_commit=None) -> dict:
        extra = ("--if-commit", if_commit) if if_commit else ()
        given = ("--params", json.dumps(params)) if params is not None else ()
        return self._json(
            "mutate", *self._store, "-e", query, "--branch", branch, "--as", "act", *given, *extra
        )

    def query(self, query: str, params=None, branch="main", snapshot=None) -> dict:
        where = ("--snapshot", snapshot) if snapshot else ("--branch", branch)
        given = ("--params", json.dumps(params)) if params is not None else ()
        return self._json("query", *self._store, "-e", query, *where, *given)

    def export(self, branch: str = "main", snapshot: str | None = None) -> list[dict]:
        extra = ("--snapshot", snapshot) if snapshot else ()
        where = extra or ("--branch", branch)
        lines = self._run("export", *self._store, *where)
        return [json.loads(line) for line in lines.splitlines()]

    def snapshot(self, branch: str = "main") -> dict:
        return self._json("snapshot", *self._store, "--branch", branch)

    def create_branch(self, name: str, source: str = "main") -> dict:
        extra = ("--from", source, "--as", "act")
        return self._on_graph("branch", "create", name, *self._store, *extra)

    def delete_branch(self, name: str) -> dict:
        return self._on_graph("branch", "delete", name, *self._store, "--as", "act")

    def branches(self) -> list[str]:
        return self._json("branch", "list", *self._store)["branches"]

    def commits(self, branch: str = "main") -> list[dict]:
        return self._json("commit", "list", *self._store, "--branch", branch)["commits"]

    def commit(self, commit_id: str) -> dict:
        return self._json("commit", "show", commit_id, *self._store)

    def schema(self) -> str:
        return self._json("schema", "show", *self._store)["schema_source"]

    def plan_schema(self, schema: str) -> dict:
        body = self._json("schema", "plan", *self._store, "--schema", "-", stdin=schema)
        body.pop("uri")
        return body

    def explain(self, query: str) -> dict:
        return self._json("explain", *self._store, "-e", query)

    def lint(self, queries: str) -> dict:
        return self._json("lint", *self._store, "--query", "-", stdin=queries)

    def blob_stat(self, kind: str, type_name: str, entity_id: str, property: str) -> dict:
        return self._json("blob", "stat", kind, type_name, entity_id, property, *self._store)


DOORS: dict[str, type[SdkDoor | CliDoor]] = {"sdk": SdkDoor, "cli": CliDoor}
