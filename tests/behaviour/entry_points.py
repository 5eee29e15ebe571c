"""Every way into a graph behind one shape, so that one list of cases runs through all of them.

A door answers with the JSON document of the verb, or raises `Refused` with the JSON error body.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock
from urllib.parse import quote, urlencode

import omnigraph
from behaviour.served_copies import TOKEN, ServedCopy
from commands.quick_command import quick_command
from omnigraph.cli.main import run
from omnigraph.errors import OmniError

Lines = list[dict]


class Refused(Exception):
    """The verb failed; `body` is the error document and `code` its exit code."""

    def __init__(self, body: dict, code: int) -> None:
        super().__init__(body["error"])
        self.body, self.code = body, code


class SdkDoor:
    """The embedded library."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _open(self, *, read_only: bool):
        return omnigraph.open(self.root, read_only=read_only, actor="act")

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

    def merge(self, source: str, into: str = "main", *, dry_run=False, delete_branch=False) -> dict:
        return self._do(
            lambda g: g.merge(source, into, dry_run=dry_run, delete_branch=delete_branch).wire()
        )

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


class CliDoor:
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
        if code:
            raise Refused(json.loads(output), code)
        return output

    def _json(self, *arguments: str, stdin: str = "") -> dict:
        return json.loads(self.run(*arguments, *self._store, "--json", stdin=stdin))

    def _on_graph(self, *arguments: str, stdin: str = "") -> dict:
        """The document without the address, which the library need not repeat."""
        body = self._json(*arguments, stdin=stdin)
        assert body.pop("uri") == self.address
        return body

    def init(self, schema: str) -> None:
        self.run("init", str(self.root), "--schema", "-", "--json", stdin=schema)

    def load(self, lines: str, mode: str, branch: str = "main", base: str | None = None) -> dict:
        extra = ("--yes", *(("--from", base) if base else ()))
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

    def merge(self, source: str, into: str = "main", *, dry_run=False, delete_branch=False) -> dict:
        flags = [
            *(["--dry-run"] if dry_run else []),
            *(["--delete-branch"] if delete_branch else []),
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
        told = self._json("changes", "baseline", "--out", str(out), *wanted)
        return [json.loads(line) for line in out.read_bytes().splitlines()], told

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


class QuickCliDoor(CliDoor):
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


class Served:
    """A door that leads through a server."""

    root: Path
    served: ServedCopy

    def init(self, schema: str) -> None:
        """A copy of an empty graph that a server has."""
        if hasattr(self, "served"):
            SdkDoor(self.root).init(schema)
        self.served = ServedCopy.take(schema)
        self.root = self.served.root


class ClientDoor(Served, SdkDoor):
    """The library, connected to a server."""

    def _open(self, *, read_only: bool):
        return omnigraph.connect(self.served.url, token=TOKEN)


class ServedCliDoor(Served, QuickCliDoor):
    """The command with `--server`."""

    as_actor = ()

    @property
    def address(self) -> str:
        return self.served.url

    @property
    def _store(self) -> tuple[str, str]:
        return ("--server", self.address)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "OMNIGRAPH_BEARER_TOKEN": TOKEN}


class HttpDoor(Served):
    """Plain HTTP, as any other program would speak it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _ask(self, method: str, path: str, body=None, headers=None, **parameters) -> bytes:
        given = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            given.setdefault("Content-Type", "application/json")
        wanted = [(name, value) for name, value in parameters.items() if value is not None]
        query = f"?{urlencode(wanted, doseq=True)}" if wanted else ""
        connection = http.client.HTTPConnection(self.served.host, self.served.port, timeout=600)
        try:
            where = f"/graphs/{self.served.id}/{path}{query}"
            connection.request(method, where, data, given)
            answer = connection.getresponse()
            found = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            failed = json.loads(found)
            failed.pop("request_id")
            raise Refused(failed, 4 if answer.status == 412 else 1)
        return found

    def _json(self, method: str, path: str, body=None, headers=None, **parameters) -> dict:
        found = json.loads(self._ask(method, path, body, headers, **parameters))
        if isinstance(found, dict) and "uri" in found:
            assert found.pop("uri") == self.served.url
        return found

    def load(self, lines: str, mode: str, branch: str = "main", base: str | None = None) -> dict:
        given = {"branch": branch, "mode": mode, "from": base}
        headers = {"Content-Type": "application/x-ndjson"}
        return self._json("POST", "load/ndjson", lines.encode(), headers, **given)

    def mutate(self, query: str, params=None, branch: str = "main", if_commit=None) -> dict:
        body = {"query": query, "params": params, "branch": branch}
        if if_commit is None:
            return self._json("POST", "mutate", body)
        headers = {"Omnigraph-If-Graph-Commit": if_commit}
        return self._json("POST", "mutate/if-graph-commit", body, headers)

    def query(self, query: str, params=None, branch="main", snapshot=None) -> dict:
        where = {"snapshot": snapshot} if snapshot else {"branch": branch}
        return self._json("POST", "query", {"query": query, "params": params, **where})

    def export(self, branch: str = "main", snapshot: str | None = None) -> Lines:
        where = {"snapshot": snapshot} if snapshot else {"branch": branch}
        return [json.loads(line) for line in self._ask("POST", "export", where).splitlines()]

    def snapshot(self, branch: str = "main") -> dict:
        return self._json("GET", "snapshot", branch=branch)

    def create_branch(self, name: str, source: str = "main") -> dict:
        return self._json("POST", "branches", {"name": name, "from": source})

    def delete_branch(self, name: str) -> dict:
        return self._json("DELETE", f"branches/{quote(name, safe='')}")

    def merge(self, source: str, into: str = "main", *, dry_run=False, delete_branch=False) -> dict:
        flags = {"dry_run": dry_run, "delete_branch": delete_branch}
        return self._json("POST", "branches/merge", {"source": source, "target": into, **flags})

    def branches(self) -> list[str]:
        names = self._json("GET", "branches")["branches"]
        return sorted(names, key=lambda name: (name != "main", name))

    def commits(self, branch: str = "main") -> Lines:
        return self._json("GET", "commits", branch=branch)["commits"]

    def commit(self, commit_id: str) -> dict:
        return self._json("GET", f"commits/{commit_id}")

    def commit_changes(self, commit_id: str, types=()) -> dict:
        return self._json("GET", f"commits/{commit_id}/changes", type=types or None)

    def changes(self, position: str, branch: str = "main") -> dict:
        is_start = position in ("now", "beginning") or position.startswith("after:")
        where = {"start" if is_start else "cursor": position}
        return self._json("GET", "changes", branch=branch, **where)

    def baseline(self, types=()) -> tuple[Lines, dict]:
        found = self._ask("POST", "changes/baseline", {"type": list(types)}).splitlines()
        *records, last = [json.loads(line) for line in found]
        return records, last["baseline"]

    def schema(self) -> str:
        return self._json("GET", "schema")["schema_source"]

    def apply_schema(self, schema: str, *, dry_run: bool = False) -> dict:
        body = {"schema_source": schema, "dry_run": dry_run}
        return self._json("POST", "schema/apply", body)

    def blob_stat(self, kind: str, type_name: str, entity_id: str, property: str) -> dict:
        cell = {"entity": kind, "type": type_name, "id": entity_id, "property": property}
        connection = http.client.HTTPConnection(self.served.host, self.served.port, timeout=600)
        try:
            where = f"/graphs/{self.served.id}/blob?{urlencode(cell)}"
            connection.request("GET", where, headers={"Authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            found = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise Refused(json.loads(found), 1)
        return {
            "entity_kind": kind,
            "type_name": type_name,
            "entity_id": entity_id,
            "property": property,
            "storage": "managed",
            "size": len(found),
            "etag": answer.headers["ETag"],
            "uri": None,
            "snapshot_id": answer.headers["Omnigraph-Snapshot-Id"],
        }

    def blob(self, cell: tuple[str, ...], start: int | None = None, length=None) -> str:
        names = dict(zip(("entity", "type", "id", "property"), cell, strict=True))
        headers = {}
        if start is not None or length is not None:
            first = start or 0
            end = "" if length is None else first + length - 1
            headers = {"Range": f"bytes={first}-{end}"}
        return self._ask("GET", "blob", None, headers, **names).hex()


DIRECT: dict[str, type] = {"sdk": SdkDoor, "cli": CliDoor}
SERVED: dict[str, type] = {"client": ClientDoor, "served": ServedCliDoor, "http": HttpDoor}
DOORS = {**DIRECT, **SERVED}
