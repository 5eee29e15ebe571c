"""Conflict rules: parsed, checked against the schema, and applied to values.

Rules are plain data, given by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadOptions, BadRequest
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar


class ConflictRule(StrEnum):
    """Resolves two values, or two rows, that contradict each other."""

    OURS = "ours"
    """Take the target's value."""
    THEIRS = "theirs"
    """Take the source's value."""
    NEWEST = "newest"
    """Take the value of the side that changed the entity, or the property, last."""
    MAX = "max"
    MIN = "min"
    SUM = "sum"
    """The base's number plus the changes of both sides."""
    UNION = "union"
    """The target's list, followed by items that only the source's has."""
    APPEND = "append"
    """The target's list, followed by the items that the source appended to the base's."""


WHOLE_ROW = frozenset({ConflictRule.OURS, ConflictRule.THEIRS, ConflictRule.NEWEST})
"""Rules that take one side unchanged."""
NEED_BASE = frozenset({ConflictRule.SUM, ConflictRule.APPEND})
"""Rules that need a known base."""
_LISTS = frozenset({ConflictRule.UNION, ConflictRule.APPEND})

Given = str | Mapping[str, str] | Iterable[str] | None


@dataclass(frozen=True, slots=True)
class Rules:
    """Conflict rules by scope: property, else type, else the default."""

    default: ConflictRule | None = None
    types: Mapping[str, ConflictRule] = field(default_factory=dict)
    properties: Mapping[str, Mapping[str, ConflictRule]] = field(default_factory=dict)
    """By type name, then by property name."""

    def for_rows(self, type_name: str) -> ConflictRule | None:
        return self.types.get(type_name, self.default)

    def for_properties(self, type_name: str) -> Mapping[str, ConflictRule]:
        return self.properties.get(type_name, {})

    def label(self, type_name: str, property: str | None = None) -> str:
        """Return the name of a rule in reports, as given."""
        if property is not None and property in self.for_properties(type_name):
            return f"{type_name}.{property}={self.properties[type_name][property]}"
        if type_name in self.types:
            return f"{type_name}={self.types[type_name]}"
        return str(self.default)


def parse_rules(given: Given, catalog: Catalog) -> Rules:
    """Parse rules as callers write them: `theirs`, `Person=ours`, `Person.age=max`, or a mapping.

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
    """Return the scope of a rule; empty for everything."""
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


def combine_values(
    rule: ConflictRule, base: pa.Array, source: pa.Array, target: pa.Array, where: str
) -> pa.Array:
    """Combine the values of both sides by a rule."""
    match rule:
        case ConflictRule.MAX:
            return _choose_extreme(pc.max_element_wise, source, target)
        case ConflictRule.MIN:
            return _choose_extreme(pc.min_element_wise, source, target)
        case ConflictRule.SUM:
            return _sum(base, source, target, where)
        case ConflictRule.UNION:
            return _combine_lists(_unite, base, source, target)
        case ConflictRule.APPEND:
            return _combine_lists(_append, base, source, target)
        case ConflictRule.OURS | ConflictRule.THEIRS | ConflictRule.NEWEST:
            raise AssertionError(f"'{rule}' takes one side as it is")


def _choose_extreme(
    choose: Callable[[pa.Array, pa.Array], pa.Array], source: pa.Array, target: pa.Array
) -> pa.Array:
    """Return the larger or smaller values; Arrow compares times and booleans only as numbers."""
    kind = target.type
    if pa.types.is_timestamp(kind) or pa.types.is_boolean(kind):
        kind = pa.int64() if pa.types.is_timestamp(kind) else pa.uint8()
    return choose(target.cast(kind), source.cast(kind)).cast(target.type)


def _sum(base: pa.Array, source: pa.Array, target: pa.Array, where: str) -> pa.Array:
    """Add the source's change of the base to the target; a missing number counts as zero."""
    zero = pa.scalar(0, target.type)
    b, s, t = (pc.fill_null(one, zero) for one in (base, source, target))
    try:
        added = pc.add_checked(t, pc.subtract_checked(s, b))
    except pa.ArrowInvalid:
        try:
            added = pc.subtract_checked(pc.add_checked(t, s), b)
        except pa.ArrowInvalid as error:
            raise BadRequest(f"the sum for {where} does not fit its type") from error
    absent = pc.and_(pc.is_null(source), pc.is_null(target))
    return pc.if_else(absent, pa.scalar(None, target.type), added)


Items = list[object]


def _combine_lists(
    combine: Callable[[Items, Items, Items], Items],
    base: pa.Array,
    source: pa.Array,
    target: pa.Array,
) -> pa.Array:
    """Combine lists one by one: there are only as many as conflicts."""
    sides = zip(base.to_pylist(), source.to_pylist(), target.to_pylist(), strict=True)
    return pa.array([combine(b or [], s or [], t or []) for b, s, t in sides], target.type)


def _unite(_: Items, source: Items, target: Items) -> Items:
    return list(dict.fromkeys([*target, *source]))


def _append(base: Items, source: Items, target: Items) -> Items:
    kept = 0
    while kept < min(len(base), len(source)) and base[kept] == source[kept]:
        kept += 1
    return [*target, *source[kept:]]
