"""The command as a way into a graph: on storage, and with `--server`."""

from __future__ import annotations

import copy
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from behaviour.library_surfaces import Lines, Refused, ServedSurface
from behaviour.served_copies import token_of
from commands.quick_command import quick_command
from omnigraph.cli.main import run


class CliSurface:
    """The real command, in a child process."""

    as_actor = ("--as", "act")

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def address(self) -> str:
        return str(self.root)

    @property
    def _store(self) -> tuple[str, str]:
        return ("--store", self.address)

    @property
    def environment(self) -> dict[str, str]:
        home = str(self.root.parent)
        return {**os.environ, "OMNIGRAPH_HOME": home, "OMNIGRAPH_LOAD_ENGINE": "local"}

    def _finish(self, arguments: tuple[str, ...], stdin: str) -> tuple[int, bytes]:
        done = subprocess.run(
            quick_command(*arguments),
            input=stdin.encode(),
            capture_output=True,
            env=self.environment,
            check=False,
            timeout=600,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return done.returncode, done.stdout

    def run(self, *arguments: str, stdin: str = "") -> bytes:
        code, output = self._finish(arguments, stdin)
        if code and "error" in (body := json.loads(output)):
            raise Refused(body, code)
        return output  # a plan that is not supported fails, and is a plan

    def _json(self, *arguments: str, stdin: str = "") -> dict:
        return json.loads(self.run(*arguments, *self._store, "--json", stdin=stdin))

    def _on_graph(self, *arguments: str, stdin: str = "") -> dict:
        """The document without the address, which the library need not repeat."""
        body = self._json(*arguments, stdin=stdin)
        assert body.pop("uri") == self.address
        return body

    def init(self, schema: str) -> None:
        self.run("init", str(self.root), "--schema", "-", "--json", stdin=schema)

    def load(
        self, lines: str, mode: str, branch: str = "main", base: str | None = None, match=()
    ) -> dict:
        extra = ("--yes", *(("--from", base) if base else ()))
        extra += ("--match", ",".join(match)) if match else ()
        arguments = ("--data", "-", "--mode", mode, "--branch", branch, *self.as_actor, *extra)
        return self._on_graph("load", *arguments, stdin=lines)

    def mutate(self, query: str, params=None, branch: str = "main", if_commit=None) -> dict:
        extra = ("--if-commit", if_commit) if if_commit else ()
        given = ("--params", json.dumps(params)) if params is not None else ()
        where = ("--branch", branch)
        return self._json("mutate", "-e", query, *where, *self.as_actor, *given, *extra)

    def query(self, query: str, params=None, branch="main", snapshot=None) -> dict:
        where = ("--snapshot", snapshot) if snapshot else ("--branch", branch)
        given = ("--params", json.dumps(params)) if params is not None else ()
        return self._json("query", "-e", query, *where, *given)

    def export(self, branch: str = "main", snapshot: str | None = None) -> Lines:
        where = ("--snapshot", snapshot) if snapshot else ("--branch", branch)
        out = self.root.parent / "export.jsonl"
        self._json("export", *where, "--out", str(out), "--force")
        return [json.loads(line) for line in out.read_bytes().splitlines()]

    def snapshot(self, branch: str = "main") -> dict:
        return self._json("snapshot", "--branch", branch)

    def create_branch(self, name: str, source: str = "main") -> dict:
        return self._on_graph("branch", "create", name, "--from", source, *self.as_actor)

    def delete_branch(self, name: str) -> dict:
        return self._on_graph("branch", "delete", name, "--yes", *self.as_actor)

    def merge(
        self,
        source: str,
        into: str = "main",
        *,
        dry_run=False,
        delete_branch=False,
        granularity="property",
    ) -> dict:
        flags = [
            *(["--dry-run"] if dry_run else []),
            *(["--delete-branch"] if delete_branch else []),
            *(["--entity"] if granularity == "entity" else []),
        ]
        return self._on_graph("branch", "merge", source, "--into", into, *flags, *self.as_actor)

    def branches(self) -> list[str]:
        return self._json("branch", "list")["branches"]

    def commits(self, branch: str = "main") -> Lines:
        return self._json("commit", "list", "--branch", branch)["commits"]

    def commit(self, commit_id: str) -> dict:
        return self._json("commit", "show", commit_id)

    def commit_changes(self, commit_id: str, types=()) -> dict:
        wanted = [part for name in types for part in ("--type", name)]
        return self._json("commit", "changes", commit_id, *wanted)

    def changes(self, position: str, branch: str = "main") -> dict:
        is_start = position in ("now", "beginning") or position.startswith("after:")
        flag = "--start" if is_start else "--cursor"
        return self._json("changes", "poll", flag, position, "--branch", branch)

    def baseline(self, types=()) -> tuple[Lines, dict]:
        out = self.root.parent / "baseline.jsonl"
        wanted = [part for name in types for part in ("--type", name)]
        summary = self._json("changes", "baseline", "--out", str(out), *wanted)
        return [json.loads(line) for line in out.read_bytes().splitlines()], summary

    def schema(self) -> str:
        return self._json("schema", "show")["schema_source"]

    def plan_schema(self, schema: str) -> dict:
        return self._on_graph("schema", "plan", "--schema", "-", stdin=schema)

    def apply_schema(self, schema: str, *, dry_run: bool = False) -> dict:
        flags = ["--dry-run"] if dry_run else []
        arguments = ("--schema", "-", *flags, *self.as_actor)
        return self._on_graph("schema", "apply", *arguments, stdin=schema)

    def explain(self, query: str) -> dict:
        return self._json("explain", "-e", query)

    def lint(self, queries: str) -> dict:
        return self._json("lint", "--query", "-", stdin=queries)

    def blob_stat(self, kind: str, type_name: str, entity_id: str, property: str) -> dict:
        return self._json("blob", "stat", kind, type_name, entity_id, property)

    def blob(self, cell: tuple[str, ...], start: int | None = None, length=None) -> str:
        given = [("--offset", start), ("--length", length)]
        wanted = [part for flag, value in given if value is not None for part in (flag, str(value))]
        return self.run("blob", "get", *cell, *self._store, *wanted).hex()

    def diff(self, before: str, after: str, *, images: bool = False) -> dict:
        return self._json("diff", before, after, *(["--images"] if images else []))

    def entity_history(self, type_name: str, entity_id: str) -> dict:
        return self._json("entity", "history", type_name, entity_id)

    def _undo(
        self,
        verb: str,
        place: str,
        branch="main",
        *,
        dry_run=False,
        resolve=None,
        granularity="property",
    ) -> dict:
        flags = [
            *(["--dry-run"] if dry_run else []),
            *(["--entity"] if granularity == "entity" else []),
            *(["--resolve", resolve] if resolve else []),
        ]
        return self._on_graph(verb, place, "--branch", branch, *flags, *self.as_actor)

    def revert(self, commit: str, **given) -> dict:
        return self._undo("revert", commit, **given)

    def cherry_pick(self, commit: str, **given) -> dict:
        return self._undo("cherry-pick", commit, **given)

    def restore(self, place: str, **given) -> dict:
        return self._undo("restore", place, **given)

    def tag(self, name: str, at: str | None = None) -> dict:
        place = ("--at", at) if at else ()
        return self._on_graph("tag", "create", name, *place, *self.as_actor)

    def tags(self) -> Lines:
        return self._json("tag", "list")["tags"]

    def delete_tag(self, name: str) -> dict:
        return self._on_graph("tag", "delete", name, "--yes", *self.as_actor)

    def stored_queries(self) -> Lines:
        return self._json("queries", "list")["queries"]

    def invoke_read(self, name: str, params=None, snapshot=None) -> dict:
        where = ("--snapshot", snapshot) if snapshot else ()
        return self._json("query", name, "--params", json.dumps(params or {}), *where)

    def invoke_mutation(self, name: str, params=None, branch="main", if_commit=None) -> dict:
        given = ("--params", json.dumps(params or {}), "--branch", branch)
        condition = ("--if-commit", if_commit) if if_commit else ()
        return self._json("mutate", name, *given, *condition)


class QuickCliSurface(CliSurface):
    """The command in this process: the same, and sooner."""

    def _finish(self, arguments: tuple[str, ...], stdin: str) -> tuple[int, bytes]:
        with in_process(stdin, self.environment) as output:
            code = run([*arguments, "--quiet"])
            sys.stdout.flush()
            return code, output.getvalue()


@contextmanager
def in_process(stdin: str, environment: dict[str, str]) -> Iterator[io.BytesIO]:
    """Streams and variables of a command that runs in this process."""
    output = io.BytesIO()
    streams = {
        "stdin": io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"),
        "stdout": io.TextIOWrapper(output, "utf-8", write_through=True),
        "stderr": io.StringIO(),
    }
    with mock.patch.multiple(sys, **streams), mock.patch.dict(os.environ, environment, clear=True):
        yield output


class ServedCliSurface(ServedSurface, QuickCliSurface):
    """The command with `--server`."""

    as_actor = ()
    actor = "act"

    def acting_as(self, actor: str):
        """Return the surface as another actor."""
        other = copy.copy(self)
        other.actor = actor
        return other

    @property
    def address(self) -> str:
        return self.served.url

    @property
    def _store(self) -> tuple[str, str]:
        return ("--server", self.address)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "OMNIGRAPH_BEARER_TOKEN": token_of(self.actor)}
