"""What an actor can ask to do, and which branches a rule about it can speak of."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Action(StrEnum):
    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    SCHEMA_APPLY = "schema_apply"
    INVOKE_QUERY = "invoke_query"
    ADMIN = "admin"
    GRAPH_LIST = "graph_list"


class BundleKind(StrEnum):
    """What a bundle is about: one graph, or the server that keeps many."""

    GRAPH = "graph"
    CLUSTER = "cluster"


class ScopeKey(StrEnum):
    """Which of the two branches of a request a rule looks at."""

    BRANCH = "branch_scope"
    TARGET = "target_branch_scope"


class BranchScope(StrEnum):
    ANY = "any"
    PROTECTED = "protected"
    UNPROTECTED = "unprotected"


SCOPE_KEYS: Mapping[Action, ScopeKey | None] = {
    Action.READ: ScopeKey.BRANCH,
    Action.EXPORT: ScopeKey.BRANCH,
    Action.CHANGE: ScopeKey.BRANCH,
    Action.BRANCH_CREATE: ScopeKey.TARGET,
    Action.BRANCH_DELETE: ScopeKey.TARGET,
    Action.BRANCH_MERGE: ScopeKey.TARGET,
    Action.SCHEMA_APPLY: ScopeKey.TARGET,
    Action.INVOKE_QUERY: None,
    Action.ADMIN: None,
    Action.GRAPH_LIST: None,
}
"""The scope key a rule with the action may have."""

READING_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""The actions that look at rows: a rule about them may leave types and properties out."""


def find_kind(action: Action) -> BundleKind:
    """The bundle that decides about an action."""
    return BundleKind.CLUSTER if action is Action.GRAPH_LIST else BundleKind.GRAPH


def find_action(word: str) -> Action | None:
    """The action of a word, written with underscores or with hyphens."""
    try:
        return Action(word.replace("-", "_"))
    except ValueError:
        return None
