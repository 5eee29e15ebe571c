"""What changes about the rules of a type: all may come, and all but a key may go.

Rules are compared by the identities of their columns, so a renamed property keeps its rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from omnigraph.catalog.catalog import Constraint, ConstraintKind, Property
from omnigraph.catalog.evolve_pairs import ChangedType
from omnigraph.catalog.migration_steps import (
    AddConstraint,
    RemoveConstraint,
    Step,
    render_constraint,
)
from omnigraph.catalog.renames import SchemaType
from omnigraph.identity import PropertyId

_STAY = "; leave it where it is, since both mean the same"
Member = PropertyId | str
"""A column by its property's id; `src` and `dst` have none and stand for themselves."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A constraint without names: what it demands of which columns."""

    kind: ConstraintKind
    members: frozenset[Member]
    low: str | None
    high: str | None
    pattern: str | None


_Rules = Mapping[_Rule, Constraint]


@dataclass(frozen=True)
class ConstraintChanges:
    """The rules of one type before and after."""

    pair: ChangedType
    before: _Rules
    after: _Rules

    @cached_property
    def _before_on(self) -> Mapping[Member, _Rules]:
        return _group_by_property(self.before)

    @cached_property
    def _after_on(self) -> Mapping[Member, _Rules]:
        return _group_by_property(self.after)

    @classmethod
    def between(cls, pair: ChangedType) -> ConstraintChanges:
        return cls(pair, _collect_rules(pair.before), _collect_rules(pair.after))

    def of_property(self, property_: Property) -> Iterator[Step]:
        """Rules written on a property that stays or is added: first removed, then added ones."""
        for rule in self._before_on.get(property_.id, {}):
            if rule not in self.after:
                yield self._remove_constraint(self.before[rule])
            elif self._has_moved(rule):
                reason = "moving property constraints into the body is not supported"
                yield self.pair.refuse_property(property_, f"{reason}: @{rule.kind}{_STAY}")
        for rule, constraint in self._after_on.get(property_.id, {}).items():
            if rule not in self.before:
                yield AddConstraint(self.pair.kind, self.pair.after.name, constraint)
            elif self._has_moved(rule):
                reason = "moving body rules to property constraints is not supported"
                yield self.pair.refuse_property(property_, f"{reason}: @{rule.kind}{_STAY}")

    def of_body(self) -> Iterator[Step]:
        """Rules of the body, and those that went away together with their property."""
        kept = {p.id for p in self.pair.after.properties}
        for rule, constraint in self.before.items():
            concerns_body = not constraint.on_property or not rule.members & kept
            if concerns_body and rule not in self.after:
                yield self._remove_constraint(constraint)
        for rule, constraint in self.after.items():
            if not constraint.on_property and rule not in self.before:
                yield AddConstraint(self.pair.kind, self.pair.after.name, constraint)

    def _has_moved(self, rule: _Rule) -> bool:
        return self.before[rule].on_property != self.after[rule].on_property

    def _remove_constraint(self, constraint: Constraint) -> Step:
        """A key makes the ids of its type: without it, the same node would get another."""
        if constraint.kind is ConstraintKind.KEY:
            return self.pair.refuse(
                f"removing {render_constraint(constraint)} is not supported; add another type"
            )
        return RemoveConstraint(self.pair.kind, self.pair.after.name, constraint)


def _collect_rules(type_: SchemaType) -> _Rules:
    ids = {p.name: p.id for p in type_.properties}
    return {_describe_rule(constraint, ids): constraint for constraint in type_.constraints}


def _describe_rule(constraint: Constraint, ids: Mapping[str, PropertyId]) -> _Rule:
    members: frozenset[Member] = frozenset(ids.get(name, name) for name in constraint.columns)
    return _Rule(constraint.kind, members, constraint.low, constraint.high, constraint.pattern)


def _group_by_property(rules: _Rules) -> Mapping[Member, _Rules]:
    """The rules that are written on a property, by its id."""
    found: dict[Member, dict[_Rule, Constraint]] = {}
    for rule, constraint in rules.items():
        if constraint.on_property:
            (member,) = rule.members
            found.setdefault(member, {})[rule] = constraint
    return found
