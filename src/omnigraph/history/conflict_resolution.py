"""Resolve conflicts by rules and by single decisions.

Rules are plain data, given by name and checked against the schema.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.errors import BadOptions, BadRequest
from omnigraph.execution.stored_rows import build_logical_schema, convert_from_table_rows
from omnigraph.history.equality import Mask, compare_values
from omnigraph.history.three_way import Entities, TableSides
from omnigraph.identity import TableKey
from omnigraph.storage.tables import Table, read_rows_at_addresses
from omnigraph.types.column_values import convert_column
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


CONFLICTS_AT_ONCE = 1_024

Take = str | Mapping[str, object]
"""`source`, `target`, `base`, or the values of properties to put into the target's row."""
Decisions = Mapping[str, Take]
"""What was decided about single entities of one type, by id."""
DECISION = "decision"


@dataclass(frozen=True, slots=True)
class ResolvedConflicts:
    """What became of the conflicts of one table."""

    taken: Entities
    """The source's row is taken, or its absence."""
    rows: pa.Table
    """Rows put together from both sides, in the engine's form."""
    deleted: pa.Array
    """Ids that go, because they were decided to be as in the base, which has none."""
    undecided: Entities
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many conflicts each rule decided."""
    added: int = 0
    """How many of `rows` the target does not have."""

    @staticmethod
    def concatenate(
        parts: Sequence[ResolvedConflicts], type_: NodeType | EdgeType
    ) -> ResolvedConflicts:
        """All of them as one; none at all settles nothing."""
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part.counts)
        no_rows, no_ids = build_logical_schema(type_).empty_table(), pa.array([], pa.string())
        return ResolvedConflicts(
            Entities.concatenate([part.taken for part in parts]),
            pa.concat_tables([no_rows, *(part.rows for part in parts)]),
            pa.concat_arrays([no_ids, *(part.deleted for part in parts)]),
            Entities.concatenate([part.undecided for part in parts]),
            dict(counts),
            sum(part.added for part in parts),
        )


class FindNewer(Protocol):
    """Says of entities whether the source changed them, or one property, after the target did."""

    def __call__(self, key: TableKey, ids: pa.Array, column: str | None = None) -> Mask: ...


@dataclass(frozen=True, slots=True)
class Resolver:
    """Everything that decides about conflicts of one type."""

    type: NodeType | EdgeType
    rules: Rules
    decisions: Decisions
    find_newer: FindNewer

    def settle(self, sides: TableSides, conflicts: Entities) -> ResolvedConflicts:
        parts = [self._settle(sides, some) for some in conflicts.batches(CONFLICTS_AT_ONCE)]
        return ResolvedConflicts.concatenate(parts, self.type)

    def _settle(self, sides: TableSides, some: Entities) -> ResolvedConflicts:
        ids = some.ids.to_pylist()
        decided = np.array([id in self.decisions for id in ids])
        by_hand = self._resolve_by_hand(sides, some.filter(decided))
        rest = some.filter(~decided)
        by_rule = self._resolve_by_rule(sides, rest)
        return ResolvedConflicts(
            Entities.concatenate([by_hand.taken, by_rule.taken]),
            pa.concat_tables([by_hand.rows, by_rule.rows]),
            by_hand.deleted,
            by_rule.undecided,
            dict(Counter(by_hand.counts) + Counter(by_rule.counts)),
            by_hand.added,
        )

    # --- single decisions -------------------------------------------------------------------------

    def _resolve_by_hand(self, sides: TableSides, some: Entities) -> ResolvedConflicts:
        takes = [self.decisions[id] for id in some.ids.to_pylist()]
        none = np.zeros(len(takes), np.bool_)
        from_source = np.array([take == "source" for take in takes], np.bool_) | none
        from_base = np.array([take == "base" for take in takes], np.bool_) | none
        given = np.array([not isinstance(take, str) for take in takes], np.bool_) | none
        base = some.filter(from_base)
        if len(base) and not sides.base_is_known:
            raise BadRequest(
                f"the decision about {self.type.name} '{base.ids[0]}' is 'base', but there is no "
                "single base: the newest common commits contradict each other about it"
            )
        kept, written = base.filter(base.has("base")), some.filter(given)
        rows = [_read_rows(sides.base, kept.base, self.type), self._replace_values(sides, written)]
        counts = {DECISION: len(takes)} if takes else {}
        return ResolvedConflicts(
            some.filter(from_source),
            pa.concat_tables(rows),
            base.filter(~base.has("base")).ids,
            some.filter(none),
            counts,
            sum(int((~part.has("target")).sum()) for part in (kept, written)),
        )

    def _replace_values(self, sides: TableSides, some: Entities) -> pa.Table:
        """The target's rows, or else the source's, with the values that were decided."""
        in_target = some.has("target")
        left, gone = some.filter(in_target), some.filter(~in_target)
        rows = pa.concat_tables(
            [
                _read_rows(sides.target, left.target, self.type),
                _read_rows(sides.source, gone.source, self.type),
            ]
        )
        takes = [self.decisions[id] for id in rows.column("id").to_pylist()]
        for property_ in self.type.properties:
            values = [
                take.get(property_.name) if isinstance(take, Mapping) else None for take in takes
            ]
            named = [isinstance(take, Mapping) and property_.name in take for take in takes]
            if not any(named):
                continue
            converted = convert_column(values, property_.type)
            if converted.errors:
                row, reason = converted.errors[0]
                id = rows.column("id")[row].as_py()
                raise BadRequest(f"the decision about {self.type.name} '{id}': {reason}")
            column = pc.if_else(
                pa.array(named), converted.array, rows.column(property_.name).combine_chunks()
            )
            self._check_values(rows, property_, column)
            at = rows.schema.get_field_index(property_.name)
            rows = rows.set_column(at, rows.schema.field(at), column)
        return rows

    def _check_values(self, rows: pa.Table, property_: Property, decided: pa.Array) -> None:
        """Raise if a decision says what no row may have, whatever the rules of the schema."""
        refused, why = decided.is_null().to_numpy(zero_copy_only=False), "cannot be null"
        if property_.type.nullable:
            refused = np.zeros(len(decided), np.bool_)
        if isinstance(self.type, NodeType) and property_ in self.type.key:
            refused = ~compare_values(rows.column(property_.name), decided)
            why = "is a @key property, which cannot be changed"
        if refused.any():
            id = rows.column("id")[int(np.argmax(refused))].as_py()
            raise BadRequest(
                f"the decision about {self.type.name} '{id}': '{property_.name}' {why}"
            )

    # --- rules ------------------------------------------------------------------------------------

    def _resolve_by_rule(self, sides: TableSides, some: Entities) -> ResolvedConflicts:
        properties = self.rules.for_properties(self.type.name)
        whole = self.rules.for_rows(self.type.name)
        in_both = some.has("source") & some.has("target")
        by_row = some if not properties else some.filter(~in_both)
        settled = self._resolve_rows(by_row, whole)
        if not properties:
            return settled
        rows, undecided, counts = self._resolve_properties(sides, some.filter(in_both), whole)
        return ResolvedConflicts(
            settled.taken,
            rows,
            settled.deleted,
            Entities.concatenate([settled.undecided, undecided]),
            dict(Counter(settled.counts) + counts),
        )

    def _resolve_rows(self, some: Entities, rule: ConflictRule | None) -> ResolvedConflicts:
        none = some.filter(np.zeros(len(some), np.bool_))
        no_rows, no_ids = build_logical_schema(self.type).empty_table(), pa.array([], pa.string())
        if rule is None:
            return ResolvedConflicts(none, no_rows, no_ids, some)
        if not len(some):
            return ResolvedConflicts(none, no_rows, no_ids, none)
        counts = {self.rules.label(self.type.name): len(some)}
        taken = some.filter(self._takes_source(rule, some.ids))
        return ResolvedConflicts(taken, no_rows, no_ids, none, counts)

    def _takes_source(self, rule: ConflictRule, ids: pa.Array, column: str | None = None) -> Mask:
        """Where a rule that takes one side as it is takes the source."""
        if rule is ConflictRule.NEWEST and len(ids):
            return self.find_newer(self.type.table_key, ids, column)
        return np.full(len(ids), rule is ConflictRule.THEIRS)

    def _resolve_properties(
        self, sides: TableSides, some: Entities, whole: ConflictRule | None
    ) -> tuple[pa.Table, Entities, Counter[str]]:
        """Rows made of both sides, value by value; those no rule says enough about stay."""
        source = _read_rows(sides.source, some.source, self.type)
        target = _read_rows(sides.target, some.target, self.type)
        has_base = some.has("base")
        base = _spread(_read_rows(sides.base, some.base.drop_null(), self.type), has_base)
        columns, decided = [], np.ones(len(some), np.bool_)
        clashes: list[tuple[str, Mask]] = []
        for field_ in build_logical_schema(self.type):
            name = field_.name
            b, s, t = (_get_column(rows, name) for rows in (base, source, target))
            clash = ~compare_values(s, t)
            s_same, t_same = has_base & compare_values(b, s), has_base & compare_values(b, t)
            clash &= ~s_same & ~t_same
            rule = self.rules.for_properties(self.type.name).get(name, whole)
            if rule is None or (rule in NEED_BASE and not sides.base_is_known):
                decided &= ~clash
                chosen = t
            elif rule in WHOLE_ROW:
                from_source = np.zeros(len(some), np.bool_)
                from_source[clash] = self._takes_source(
                    rule, some.ids.filter(pa.array(clash)), name
                )
                chosen = pc.if_else(pa.array(from_source), s, t)
            else:
                chosen = _combine_values(rule, b, s, t, f"{self.type.name}.{name}")
            if rule is not None:
                clashes.append((self.rules.label(self.type.name, name), clash))
            kept = pc.if_else(pa.array(t_same & ~s_same), s, t)
            columns.append(pc.if_else(pa.array(clash), chosen, kept))
        merged = pa.table(columns, schema=build_logical_schema(self.type))
        counts = Counter[str]()
        for label, clash in clashes:
            counts[label] += int((clash & decided).sum())
        return merged.filter(pa.array(decided)), some.filter(~decided), +counts


def _combine_values(
    rule: ConflictRule, base: pa.Array, source: pa.Array, target: pa.Array, where: str
) -> pa.Array:
    """What a rule makes of both values."""
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
    """The larger or the smaller value; Arrow compares times and truth values only as numbers."""
    kind = target.type
    if pa.types.is_timestamp(kind) or pa.types.is_boolean(kind):
        kind = pa.int64() if pa.types.is_timestamp(kind) else pa.uint8()
    return choose(target.cast(kind), source.cast(kind)).cast(target.type)


def _sum(base: pa.Array, source: pa.Array, target: pa.Array, where: str) -> pa.Array:
    """The target with what the source added to the base; a missing number counts as zero."""
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
    """Lists put together one by one: there are as many as conflicts."""
    sides = zip(base.to_pylist(), source.to_pylist(), target.to_pylist(), strict=True)
    return pa.array([combine(b or [], s or [], t or []) for b, s, t in sides], target.type)


def _unite(_: Items, source: Items, target: Items) -> Items:
    return list(dict.fromkeys([*target, *source]))


def _append(base: Items, source: Items, target: Items) -> Items:
    kept = 0
    while kept < min(len(base), len(source)) and base[kept] == source[kept]:
        kept += 1
    return [*target, *source[kept:]]


def _read_rows(table: Table, addresses: pa.Array, type_: NodeType | EdgeType) -> pa.Table:
    names = build_logical_schema(type_).names
    found = pa.concat_tables(list(read_rows_at_addresses(table, addresses, names, blob_bytes=True)))
    return convert_from_table_rows(found, type_)


def _spread(rows: pa.Table, present: Mask) -> pa.Table:
    """The rows at the places that have one, and null at the others."""
    places = np.cumsum(present) - 1
    return rows.take(pa.array(places, pa.int64(), mask=~present))


def _get_column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
