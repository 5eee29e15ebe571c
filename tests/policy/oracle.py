"""The decision again, in the plainest Python, over the plain data of a bundle."""

from __future__ import annotations

from typing import Any


def rules_that_allow(
    body: dict[str, Any],
    actor: str | None,
    action: str,
    branch: str | None,
    target: str | None,
    query: str | None = None,
) -> list[dict[str, Any]]:
    found = []
    for rule in body["rules"]:
        allow = rule["allow"]
        if actor not in body["groups"][allow["actors"]["group"]]:
            continue
        if action not in allow["actions"]:
            continue
        if "queries" in allow and query not in allow["queries"]:
            continue
        ok = True
        for key, name in (("branch_scope", branch), ("target_branch_scope", target)):
            scope = allow.get(key, "any")
            if scope == "protected":
                ok = ok and name is not None and name in body["protected_branches"]
            if scope == "unprotected":
                ok = ok and name is not None and name not in body["protected_branches"]
        if ok:
            found.append(rule)
    return sorted(found, key=lambda rule: rule["id"])


def sees(body: dict[str, Any], actor: str, action: str, branch: str | None, name: str) -> bool:
    """Return whether some rule shows the actor a type or property."""
    type_name = name.split(".")[0]
    for rule in rules_that_allow(body, actor, action, branch, None):
        left_out = rule["allow"].get("except", [])
        if name not in left_out and type_name not in left_out:
            return True
    return False
