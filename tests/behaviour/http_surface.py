"""Plain HTTP as a way into a graph."""

from __future__ import annotations

import copy
import http.client
import json
from pathlib import Path
from urllib.parse import quote, urlencode

from behaviour.library_surfaces import Lines, Refused, ServedSurface
from behaviour.served_copies import token_of


class HttpSurface(ServedSurface):
    """Plain HTTP, as any other program would speak it."""

    actor = "act"

    def __init__(self, root: Path) -> None:
        self.root = root

    def acting_as(self, actor: str):
        """Return the surface as another actor."""
        other = copy.copy(self)
        other.actor = actor
        return other

    def _ask(self, method: str, path: str, body=None, headers=None, **parameters) -> bytes:
        given = {"Authorization": f"Bearer {token_of(self.actor)}", **(headers or {})}
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
            ends = 4 if answer.status == 412 else 2 if failed["kind"] == "bad_options" else 1
            raise Refused(failed, ends)
        return found

    def _json(self, method: str, path: str, body=None, headers=None, **parameters) -> dict:
        found = json.loads(self._ask(method, path, body, headers, **parameters))
        if isinstance(found, dict) and "uri" in found:
            assert found.pop("uri") == self.served.url
        return found

    def load(
        self, lines: str, mode: str, branch: str = "main", base: str | None = None, match=()
    ) -> dict:
        given = {"branch": branch, "mode": mode, "from": base, "match": match}
        headers = {"Content-Type": "application/x-ndjson"}
        return self._json("POST", "load/ndjson", lines.encode(), headers, **given)

    def mutate(self, query: str, params=None, branch: str = "main", if_commit=None) -> dict:
        body = {"query": query, "params": params, "branch": branch}
        if if_commit is None:
            return self._json("POST", "mutate", body)
        headers = {"Omnigraph-If-Graph-Commit": if_commit}
        return self._json("POST", "mutate", body, headers)

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

    def merge(self, source: str, into: str = "main", **given) -> dict:
        return self._json("POST", "branches/merge", {"source": source, "target": into, **given})

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
            connection.request(
                "GET", where, headers={"Authorization": f"Bearer {token_of(self.actor)}"}
            )
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

    def plan_schema(self, schema: str) -> dict:
        return self._json("POST", "schema/plan", {"schema_source": schema})

    def explain(self, query: str) -> dict:
        return self._json("POST", "explain", {"query": query})["plan"]

    def lint(self, queries: str) -> dict:
        return self._json("POST", "lint", {"queries": queries})

    def diff(self, before: str, after: str, *, images: bool = False) -> dict:
        given = {"before": before, "after": after, "images": "true" if images else None}
        counted = self._json("GET", "diff", **given)
        lines = self._ask("GET", "diff", None, {"Accept": "application/x-ndjson"}, **given)
        return {**counted, "changes": [json.loads(line) for line in lines.splitlines()]}

    def entity_history(self, type_name: str, entity_id: str) -> dict:
        return self._json("GET", "history", type=type_name, id=entity_id)

    def revert(self, commit: str, **given) -> dict:
        return self._json("POST", "revert", {"commit": commit, **given})

    def cherry_pick(self, commit: str, **given) -> dict:
        return self._json("POST", "cherry-pick", {"commit": commit, **given})

    def restore(self, place: str, **given) -> dict:
        return self._json("POST", "restore", {"revision": place, **given})

    def tag(self, name: str, at: str | None = None) -> dict:
        return self._json("POST", "tags", {"name": name, "at": at})

    def tags(self) -> Lines:
        return self._json("GET", "tags")["tags"]

    def delete_tag(self, name: str) -> dict:
        return self._json("DELETE", f"tags/{quote(name, safe='')}")

    def stored_queries(self) -> Lines:
        return self._json("GET", "queries")["queries"]

    def invoke_read(self, name: str, params=None, snapshot=None) -> dict:
        body = {"params": params, "snapshot": snapshot, "expect_mutation": False}
        return self._json("POST", f"queries/{name}", body)

    def invoke_mutation(self, name: str, params=None, branch="main", if_commit=None) -> dict:
        body = {"params": params, "branch": branch, "expect_mutation": True}
        if if_commit is None:
            return self._json("POST", f"queries/{name}", body)
        headers = {"Omnigraph-If-Graph-Commit": if_commit}
        return self._json("POST", f"queries/{name}", body, headers)
