"""A policy: groups of actors, and rules that allow them something. Nothing is ever forbidden.

What no rule allows is denied, so adding a rule can only give more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from omnigraph.policy.actions import Action, BranchScope, BundleKind, ScopeKey


@dataclass(frozen=True, slots=True)
class Group:
    """Actors under one name."""

    name: str
    actors: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rule:
    """Allows the actors of a group some actions.

    `leaves_out` are names of types and properties (`Salary`, `Person.email`) that the rule lets
    nobody see. `queries` are the stored queries that it is about, None for all of them.
    """

    id: str
    group: str
    actions: frozenset[Action]
    scope_key: ScopeKey | None = None
    scope: BranchScope = BranchScope.ANY
    leaves_out: frozenset[str] = frozenset()
    queries: frozenset[str] | None = None


@dataclass(frozen=True)
class Policy:
    """A bundle that was read and checked."""

    name: str
    kind: BundleKind = BundleKind.GRAPH
    groups: tuple[Group, ...] = ()
    protected_branches: frozenset[str] = frozenset()
    rules: tuple[Rule, ...] = field(default=())

    @cached_property
    def actors(self) -> frozenset[str]:
        """Everybody the policy knows."""
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
        """The rules that may allow it on some branch, by ascending id."""
        return self._rules.get((actor, action), ())

    @property
    def names_left_out(self) -> frozenset[str]:
        """Every type and property that some rule leaves out."""
        return frozenset().union(*(rule.leaves_out for rule in self.rules))


class NoPolicy(StrEnum):
    """What holds where no bundle is bound."""

    OPEN = "open"
    """Everything about graphs is allowed, to everybody."""
    DEFAULT_DENY = "default_deny"
    """A known actor may read; nothing else is allowed."""


Authority = Policy | NoPolicy
