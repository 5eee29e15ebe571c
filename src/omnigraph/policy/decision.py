"""Policies and decisions: actions, groups, rules, and the one function that allows an action.

What no rule allows is denied, so adding a rule can only give more. Every surface asks with the
same branches: (branch, target branch) of

read, export, change (branch, -) branch_delete (-, branch) branch_create (from, new)
schema_apply (-, main) branch_merge (source, target) all others (-, -)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from omnigraph.errors import PolicyDenied
from omnigraph.result import Result


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
    """The subject of a bundle: one graph, or a server with many."""

    GRAPH = "graph"
    CLUSTER = "cluster"


class ScopeKey(StrEnum):
    """The branch of a request that a rule compares: the source or the target."""

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
"""The scope key that a rule with the action may have."""

READING_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.CHANGE})
"""The actions that read rows: a rule about them may exclude types and properties."""


def find_kind(action: Action) -> BundleKind:
    """Return the kind of bundle that decides about an action."""
    return BundleKind.CLUSTER if action is Action.GRAPH_LIST else BundleKind.GRAPH


def find_action(word: str) -> Action | None:
    """Return the action of a word, written with underscores or with hyphens."""
    try:
        return Action(word.replace("-", "_"))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Group:
    """A named group of actors."""

    name: str
    actors: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rule:
    """A grant: the actors of a group may do some actions.

    `excludes` are names of types and properties (`Salary`, `Person.email`) that the rule does not
    grant. `queries` are the stored queries that it is about, None for all of them.
    """

    id: str
    group: str
    actions: frozenset[Action]
    scope_key: ScopeKey | None = None
    scope: BranchScope = BranchScope.ANY
    excludes: frozenset[str] = frozenset()
    queries: frozenset[str] | None = None


@dataclass(frozen=True)
class Policy:
    """A bundle after validation."""

    name: str
    kind: BundleKind = BundleKind.GRAPH
    groups: tuple[Group, ...] = ()
    protected_branches: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = field(default=())

    @cached_property
    def actors(self) -> frozenset[str]:
        """All actors of all groups."""
        return frozenset().union(*(group.actors for group in self.groups))

    @cached_property
    def _rules(self) -> Mapping[tuple[str, Action], tuple[Rule, ...]]:
        members = {group.name: group.actors for group in self.groups}
        found: dict[tuple[str, Action], list[Rule]] = {}
        for rule in sorted(self.rules, key=lambda one: one.id):
            for actor in members[rule.group]:
                for action in rule.actions:
                    found.setdefault((actor, action), []).append(rule)
        return {key: tuple(rules) for key, rules in found.items()}

    def rules_for(self, actor: str, action: Action) -> tuple[Rule, ...]:
        """Return the rules that may allow an action on some branch, by ascending id."""
        return self._rules.get((actor, action), ())

    @property
    def excluded_names(self) -> frozenset[str]:
        """Every type and property that some rule excludes."""
        return frozenset().union(*(rule.excludes for rule in self.rules))


class NoPolicy(StrEnum):
    """The default where no bundle is bound."""

    OPEN = "open"
    """Everything about graphs is allowed, to everybody."""
    DEFAULT_DENY = "default_deny"
    """A known actor may read; nothing else is allowed."""


Authority = Policy | NoPolicy


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """An action that an actor asks for."""

    actor: str | None
    action: Action
    branch: str | None = None
    target_branch: str | None = None
    query: str | None = None

    def answer(
        self, reason: str, rule: Rule | None = None, *, is_allowed: bool = False
    ) -> Decision:
        """Return the decision about it; a rule allows it."""
        verdict = Verdict.ALLOW if is_allowed or rule is not None else Verdict.DENY
        where = "".join(
            f" {words} '{value}'"
            for words, value in (
                ("on branch", self.branch),
                ("into branch", self.target_branch),
                ("of query", self.query),
            )
            if value is not None
        )
        who = "no actor" if self.actor is None else f"actor '{self.actor}'"
        said = "allowed" if verdict is Verdict.ALLOW else "denied"
        return Decision(
            decision=verdict,
            actor=self.actor,
            action=self.action,
            branch=self.branch,
            target_branch=self.target_branch,
            query=self.query,
            matched_rule=None if rule is None else rule.id,
            message=f"policy {said} action '{self.action}'{where} to {who}: {reason}",
        )


class Verdict(StrEnum):
    """The outcome of a decision."""

    ALLOW = "allow"
    DENY = "deny"


class Decision(Result, frozen=True, kw_only=True):
    """A decision with its request and, in its message, its reason."""

    decision: Verdict
    actor: str | None
    action: Action
    branch: str | None = None
    target_branch: str | None = None
    query: str | None = None
    matched_rule: str | None = None
    """The first rule, by id, that allows it."""
    message: str

    @property
    def allowed(self) -> bool:
        return self.decision is Verdict.ALLOW

    def require(self) -> Decision:
        """Return the decision if it allows the action.

        Raises:
            PolicyDenied: it does not.
        """
        if not self.allowed:
            raise PolicyDenied(
                self.message,
                actor=self.actor,
                action=self.action,
                branch=self.branch,
                target_branch=self.target_branch,
                query=self.query,
            )
        return self


def decide(
    authority: Authority,
    actor: str | None,
    action: Action,
    *,
    branch: str | None = None,
    target_branch: str | None = None,
    query: str | None = None,
) -> Decision:
    """Decide whether an actor may do an action; never raises.

    Branches are compared by their exact names, without spaces around them.
    """
    request = AccessRequest(
        actor=actor,
        action=action,
        branch=None if branch is None else branch.strip(),
        target_branch=None if target_branch is None else target_branch.strip(),
        query=query,
    )
    if isinstance(authority, NoPolicy):
        return _decide_by_default(authority, request)
    if authority.kind is not find_kind(action):
        return request.answer(f"policy '{authority.name}' does not cover it")
    if actor is None:
        return request.answer("it needs an actor")
    if actor not in authority.actors:
        return request.answer("unknown actor: not a member of any group")
    rules = find_rules(authority, request)
    if not rules:
        return request.answer("no rule allows it")
    return request.answer(f"rule '{rules[0].id}'", rules[0])


def authorize(
    authority: Authority,
    actor: str | None,
    action: Action,
    *,
    branch: str | None = None,
    target_branch: str | None = None,
    query: str | None = None,
) -> Decision:
    """Return the decision if it allows the action.

    Raises:
        PolicyDenied: it does not.
    """
    decision = decide(
        authority, actor, action, branch=branch, target_branch=target_branch, query=query
    )
    return decision.require()


def find_rules(policy: Policy, request: AccessRequest) -> list[Rule]:
    """Return the rules that allow a request, by ascending id."""
    if request.actor is None:
        return []
    rules = policy.rules_for(request.actor, request.action)
    return [rule for rule in rules if _covers(rule, policy, request)]


def _covers(rule: Rule, policy: Policy, request: AccessRequest) -> bool:
    if rule.queries is not None and request.query not in rule.queries:
        return False
    if rule.scope_key is None or rule.scope is BranchScope.ANY:
        return True
    branch = request.branch if rule.scope_key is ScopeKey.BRANCH else request.target_branch
    if branch is None:
        return False
    return (branch in policy.protected_branches) == (rule.scope is BranchScope.PROTECTED)


def _decide_by_default(authority: NoPolicy, request: AccessRequest) -> Decision:
    if find_kind(request.action) is BundleKind.CLUSTER:
        return request.answer("only a server policy can allow it")
    if authority is NoPolicy.OPEN:
        return request.answer(
            "without tokens and policies, everything about graphs is allowed",
            is_allowed=True,
        )
    if request.action is Action.READ and request.actor is not None:
        return request.answer("without a policy, known actors may read", is_allowed=True)
    return request.answer("without a policy, known actors may only read")
