"""Rules that settle conflicts: plain data, given by name, checked against the schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadOptions
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar


class ConflictRule(StrEnum):
    """How to resolve two values, or two rows, that contradict each other."""

    OURS = "ours"
    """What the target has."""
    THEIRS = "theirs"
    """What the source has."""
    NEWEST = "newest"
    """What the side has that changed the entity, or the property, last."""
    MAX = "max"
    MIN = "min"
    SUM = "sum"
    """The base's number with what both sides added to it."""
    UNION = "union"
    """The target's list, and what only the source's has."""
    APPEND = "append"
    """The target's list, and what the source put behind the base's."""


WHOLE_ROW = frozenset({ConflictRule.OURS, ConflictRule.THEIRS, ConflictRule.NEWEST})
"""Rules that take one side unchanged."""
NEED_BASE = frozenset({ConflictRule.SUM, ConflictRule.APPEND})
"""Rules that cannot decide where the base is unknown."""
_LISTS = frozenset({ConflictRule.UNION, ConflictRule.APPEND})

Given = str | Mapping[str, str] | Iterable[str] | None


@dataclass(frozen=True, slots=True)
class Rules:
    """Which rule decides: for one property, else for its type, else for everything."""

    default: ConflictRule | None = None
    types: Mapping[str, ConflictRule] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, ConflictRule]] = field(default_factory=dict)
    """By type name, then by property name."""

    def for_rows(self, type_name: str) -> ConflictRule | None:
        return self.types.get(type_name, self.default)

    def for_properties(self, type_name: str) -> Mapping[str, ConflictRule]:
        return self.properties.get(type_name, {})

    def label(self, type_name: str, property: str | None = None) -> str:
        """What a rule is called in reports: as it was given."""
        if property is not None and property in self.for_properties(type_name):
            return f"{type_name}.{property}={self.properties[type_name][property]}"
        if type_name in self.types:
            return f"{type_name}={self.types[type_name]}"
        return str(self.default)


def parse_rules(given: Given, catalog: Catalog) -> Rules:
    """Rules as callers write them: `theirs`, `Person=ours`, `Person.age=max`, or a mapping.

    Raises:
        BadOptions: a rule, type or property is unknown, the rule does not fit the property, or
            two rules are given for the same.
    """
    default: ConflictRule | None = None
    types: dict[str, ConflictRule] = {}
    properties: dict[str, dict[str, ConflictRule]] = {}
    seen: dict[str, ConflictRule] = {}
    for scope, rule in _iterate_pairs(given):
        if seen.setdefault(scope, rule) != rule:
            raise BadOptions(
                f"there are two conflict rules for {scope or 'everything'}: "
                f"'{seen[scope]}' and '{rule}'"
            )
        if not scope:
            default = _require_row_rule(rule, "everything")
            continue
        type_name, _, property = scope.partition(".")
        type_ = _find_type(catalog, type_name)
        if property:
            _check_property(type_, property, rule)
            properties.setdefault(type_name, {})[property] = rule
        else:
            types[type_name] = _require_row_rule(rule, type_name)
    return Rules(default, types, properties)


def _iterate_pairs(given: Given) -> Iterable[tuple[str, ConflictRule]]:
    if given is None:
        return
    if isinstance(given, Mapping):
        for scope, name in given.items():
            yield _parse_scope(scope), _parse_rule(name)
        return
    for text in [given] if isinstance(given, str) else given:
        scope, is_scoped, name = text.partition("=")
        yield (_parse_scope(scope), _parse_rule(name)) if is_scoped else ("", _parse_rule(text))


def _parse_scope(text: str) -> str:
    """What a rule is for; empty for everything."""
    scope = text.strip()
    return "" if scope == "*" else scope


def _parse_rule(name: str) -> ConflictRule:
    try:
        return ConflictRule(name.strip())
    except ValueError as error:
        known = ", ".join(ConflictRule)
        raise BadOptions(f"no such rule '{name}'; the rules are {known}") from error


def _require_row_rule(rule: ConflictRule, where: str) -> ConflictRule:
    if rule not in WHOLE_ROW:
        raise BadOptions(
            f"rule '{rule}' applies to a single property, not to {where}; "
            f"give it as Type.property={rule}"
        )
    return rule


def _find_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    for type_ in catalog.by_table_key.values():
        if type_.name == name:
            return type_
    raise BadOptions(f"no such type '{name}' in a conflict rule")


def _check_property(type_: NodeType | EdgeType, name: str, rule: ConflictRule) -> None:
    property_ = type_.property(name)
    if property_ is None:
        raise BadOptions(f"{type_.name} has no property '{name}', named in a conflict rule")
    if not _fits(rule, property_.type):
        raise BadOptions(f"rule '{rule}' does not fit {type_.name}.{name}, a {property_.type}")


def _fits(rule: ConflictRule, type: PropertyType) -> bool:
    if rule in WHOLE_ROW:
        return True
    if rule in _LISTS:
        return type.is_list and not type.is_vector
    if type.is_list or type.is_vector:
        return False
    if rule is ConflictRule.SUM:
        return type.scalar in INTEGERS or type.scalar in FLOATS
    return type.scalar is not Scalar.BLOB
