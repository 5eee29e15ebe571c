"""One request of every route of a graph that changes nothing, and the rights that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from server.serving import SCHEMA

FIND = "query find() { match { $p: Person } return { $p.name } }"
CLEAR = 'query clear() { delete Person where name = "nobody" }'
NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

Right = tuple[str, str | None, str | None]
"""An action, and the branch and target that are presented for it."""


@dataclass(frozen=True)
class Asked:
    """A request that changes nothing, and the rights it takes."""

    method: str
    path: str
    rights: tuple[Right, ...]
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    is_masked: bool = False
    """True if an actor without the first right gets the answer of a missing resource."""


PHOTO = "blob?entity=node&type=Person&id=Ada&property=photo&branch={branch}"
ON = {"branch": "{branch}"}
UNDO = {"commit": "{commit of main}", "branch": "{branch}", "dry_run": True}
LINES = {"Content-Type": "application/x-ndjson"}
OCTETS = {"Content-Type": "application/octet-stream"}

READS: Right = ("read", "{branch}", None)
READS_MAIN: Right = ("read", "main", None)
READS_ANY: Right = ("read", None, None)
EXPORTS: Right = ("export", "{branch}", None)
CHANGES: Right = ("change", "{branch}", None)
INVOKES: Right = ("invoke_query", None, None)

REQUESTS: dict[str, Asked] = {
    "getSnapshot": Asked("GET", "snapshot?branch={branch}", (READS,)),
    "getBlob": Asked("GET", PHOTO, (READS,)),
    "headBlob": Asked("HEAD", PHOTO, (READS,)),
    "putBlob": Asked(
        "PUT",
        "blob?entity=node&type=Person&id=nobody&property=photo&branch={branch}",
        (CHANGES, READS),
        b"x",
        OCTETS,
    ),
    "query": Asked("POST", "query", (READS,), {"query": FIND, **ON}),
    "explain": Asked("POST", "explain", (READS,), {"query": FIND, **ON}),
    "lint": Asked("POST", "lint", (READS,), {"queries": FIND, **ON}),
    "listRows": Asked("GET", "rows?entity=node&type=Person&branch={branch}", (READS,)),
    "mutate": Asked("POST", "mutate", (CHANGES,), {"query": CLEAR, **ON}),
    "list_queries": Asked("GET", "queries", (READS_MAIN,)),
    "invoke_query": Asked("POST", "queries/find", (INVOKES, READS), ON, is_masked=True),
    "getSchema": Asked("GET", "schema", (READS_ANY,)),
    "planSchema": Asked("POST", "schema/plan", (READS_ANY,), {"schema_source": SCHEMA, **ON}),
    "applySchema": Asked(
        "POST",
        "schema/apply",
        (("schema_apply", None, "{branch}"), CHANGES),
        {"schema_source": SCHEMA, "mutations": [CLEAR], "dry_run": True, **ON},
    ),
    "load": Asked("POST", "load", (CHANGES,), {"data": "{}", **ON}),
    "loadNdjson": Asked("POST", "load/ndjson?branch={branch}", (CHANGES,), b"{}", LINES),
    "export": Asked("POST", "export", (EXPORTS,), ON),
    "listBranches": Asked("GET", "branches", (READS_ANY,)),
    "createBranch": Asked(
        "POST",
        "branches",
        (("branch_create", "dev", "{branch}"),),
        {"name": "{branch}", "from": "dev"},
    ),
    "mergeBranches": Asked(
        "POST",
        "branches/merge",
        (("branch_merge", "kept", "{branch}"), ("branch_delete", None, "kept")),
        {"source": "kept", "target": "{branch}", "delete_branch": True, "dry_run": True},
    ),
    "renameBranch": Asked(
        "POST",
        "branches/rename",
        (("branch_delete", None, "{branch}"), ("branch_create", "{branch}", "kept")),
        {"name": "{branch}", "new_name": "kept"},
    ),
    "deleteBranch": Asked("DELETE", "branches/{gone}", (("branch_delete", None, "{gone}"),)),
    "listCommits": Asked("GET", "commits?branch={branch}", (READS,)),
    "getCommit": Asked("GET", "commits/{commit}", (READS_ANY,)),
    "getCommitChanges": Asked("GET", "commits/{commit}/changes", (READS,), is_masked=True),
    "revert": Asked("POST", "revert", (CHANGES, READS_MAIN), UNDO),
    "cherryPick": Asked("POST", "cherry-pick", (CHANGES, READS_MAIN), UNDO),
    "restore": Asked(
        "POST",
        "restore",
        (CHANGES, READS_MAIN),
        {"revision": "main", "branch": "{branch}", "dry_run": True},
    ),
    "listTags": Asked("GET", "tags", (READS_ANY,)),
    "createTag": Asked("POST", "tags", (CHANGES,), {"name": "main", **ON}),
    "deleteTag": Asked("DELETE", "tags/nothing", (("change", None, None),)),
    "diff": Asked("GET", "diff?before={branch}&branch={branch}", (READS,)),
    "getEntityHistory": Asked("GET", "history?type=Person&id=Ada&branch={branch}", (READS,)),
    "pollChanges": Asked("GET", "changes?branch={branch}", (READS,)),
    "captureChangeBaseline": Asked("POST", "changes/baseline", (EXPORTS,), ON),
    "listConsumers": Asked("GET", "consumers", (READS_ANY,)),
    "setConsumer": Asked("PUT", "consumers/c", (CHANGES,), {"lasts_seconds": 0, **ON}),
    "deleteConsumer": Asked("DELETE", "consumers/nothing", (("change", None, None),)),
    "getWrite": Asked("GET", "writes/nothing?branch={branch}", (CHANGES,)),
}
"""By operation; what stands in braces differs from branch to branch."""


def list_requests(branch: str, commits: Mapping[str, str]) -> dict[str, Asked]:
    """The requests, about a branch; `commits` are the heads of branches."""
    words = {
        "{branch}": branch,
        "{gone}": "gone" if branch == "dev" else branch,
        "{commit}": commits[branch],
        "{commit of main}": commits["main"],
    }
    return {
        operation: Asked(
            one.method,
            _fill(one.path, words),
            _fill(one.rights, words),
            _fill(one.body, words),
            one.headers,
            one.is_masked,
        )
        for operation, one in REQUESTS.items()
    }


def _fill(value: Any, words: Mapping[str, str]) -> Any:
    """Return the path with words in place of its parameters."""
    if isinstance(value, str):
        for word, meant in words.items():
            value = value.replace(word, meant)
        return value
    if isinstance(value, tuple):
        return tuple(_fill(one, words) for one in value)
    if isinstance(value, dict):
        return {name: _fill(one, words) for name, one in value.items()}
    return value
