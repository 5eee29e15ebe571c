"""Bundles for tests: the one of the documentation, and random ones as plain data."""

from __future__ import annotations

import random
from typing import Any

from omnigraph.language.source import SourceText
from omnigraph.policy import BundleKind, Policy, parse_bundle

LIBRARY = """\
version: 1
groups:
  admins: [act-maria]
  agents: [act-bot-1, act-bot-2]
protected_branches: [main]
rules:
  - id: agents-read-anywhere
    allow:
      actors: { group: agents }
      actions: [read, export]
      branch_scope: any
  - id: agents-write-side-branches
    allow:
      actors: { group: agents }
      actions: [change]
      branch_scope: unprotected
  - id: agents-branch
    allow:
      actors: { group: agents }
      actions: [branch_create, branch_delete]
      target_branch_scope: unprotected
  - id: admins-merge
    allow:
      actors: { group: admins }
      actions: [branch_merge, schema_apply]
      target_branch_scope: protected
  - id: agents-run-stored
    allow:
      actors: { group: agents }
      actions: [invoke_query]
"""

BRANCHED = ("read", "export", "change")
TARGETED = ("branch_create", "branch_delete", "branch_merge", "schema_apply")
UNSCOPED = ("invoke_query", "admin")
ACTORS = ("ann", "bob", "cy", "dee")
BRANCHES = ("main", "dev", "review/one")
NAMES = ("Person", "Person.email", "Person.name", "Salary")
QUERIES = ("find", "count")


def bundle(text: str, kind: BundleKind = BundleKind.GRAPH, name: str = "library") -> Policy:
    return parse_bundle(SourceText(text, f"{name}.policy.yaml"), kind)


def random_rule(rng: random.Random, number: int, groups: list[str]) -> dict[str, Any]:
    """A rule that is right, as plain data."""
    allow: dict[str, Any] = {"actors": {"group": rng.choice(groups)}}
    pool = rng.choice((BRANCHED, TARGETED, UNSCOPED))
    allow["actions"] = rng.sample(pool, rng.randint(1, len(pool)))
    if pool is not UNSCOPED and rng.random() < 0.8:
        key = "branch_scope" if pool is BRANCHED else "target_branch_scope"
        allow[key] = rng.choice(("any", "protected", "unprotected"))
    if pool is BRANCHED and rng.random() < 0.5:
        allow["except"] = rng.sample(NAMES, rng.randint(1, len(NAMES)))
    if allow["actions"] == ["invoke_query"] and rng.random() < 0.7:
        allow["queries"] = rng.sample(QUERIES, rng.randint(1, 2))
    return {"id": f"rule-{number:02}", "allow": allow}


def random_bundle(rng: random.Random) -> dict[str, Any]:
    """A bundle that is right, as plain data."""
    groups = {name: rng.sample(ACTORS, rng.randint(1, 3)) for name in ("one", "two", "three")}
    rules = [random_rule(rng, n, list(groups)) for n in range(rng.randint(0, 8))]
    rng.shuffle(rules)
    return {
        "version": 1,
        "groups": groups,
        "protected_branches": rng.sample(BRANCHES, rng.randint(0, 2)),
        "rules": rules,
    }
