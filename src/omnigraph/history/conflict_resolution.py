"""Resolve conflicts by rules and by single decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType, Property
from omnigraph.errors import BadRequest
from omnigraph.execution.stored_rows import build_logical_schema, convert_from_table_rows
from omnigraph.history.conflict_rules import (
    NEED_BASE,
    WHOLE_ROW,
    ConflictRule,
    Rules,
    combine_values,
)
from omnigraph.history.equality import compare_values
from omnigraph.history.property_merge import (
    ColumnChanges,
    CombinedRows,
    compare_columns,
    mask_any,
    pack_masks,
)
from omnigraph.history.table_sides import (
    Entities,
    Granularity,
    Mask,
    Masks,
    RowSource,
    TableSides,
    VirtualRows,
    read_rows,
)
from omnigraph.identity import TableKey
from omnigraph.types.column_values import convert_column

CONFLICTS_AT_ONCE = 1_024

Take = str | Mapping[str, object]
"""`source`, `target`, `base`, or the values of properties.

In a merge by property, the first three apply to the conflicting properties, else to the row.
"""
Decisions = Mapping[str, Take]
"""The decisions about single entities of one type, by id."""
DECISION = "decision"


@dataclass(frozen=True, slots=True)
class ResolvedConflicts:
    """The conflicts of one table after rules and decisions were applied."""

    taken: Entities
    """Entities whose row is taken from the source, or deleted as there."""
    combined: tuple[CombinedRows, ...]
    """Rows with properties of both sides."""
    rows: pa.Table
    """Rows given by decisions, in the engine's form."""
    deleted: pa.Array
    """Ids that are deleted, because a decision takes the base, which has none."""
    undecided: Entities
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of conflicts that each rule decided."""
    added: int = 0
    """The number of `rows` that the target does not have."""

    @staticmethod
    def concatenate(
        parts: Sequence[ResolvedConflicts], type_: NodeType | EdgeType
    ) -> ResolvedConflicts:
        """Combine them; empty if there are none."""
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part.counts)
        no_rows, no_ids = build_logical_schema(type_).empty_table(), pa.array([], pa.string())
        return ResolvedConflicts(
            Entities.concatenate([part.taken for part in parts]),
            tuple(one for part in parts for one in part.combined if len(one)),
            pa.concat_tables([no_rows, *(part.rows for part in parts)]),
            pa.concat_arrays([no_ids, *(part.deleted for part in parts)]),
            Entities.concatenate([part.undecided for part in parts]),
            dict(counts),
            sum(part.added for part in parts),
        )


_NO_ENTITIES = Entities.concatenate([])


class FindNewer(Protocol):
    """Masks the entities, or one property of them, that the source changed after the target."""

    def __call__(self, key: TableKey, ids: pa.Array, column: str | None = None) -> Mask: ...


@dataclass(frozen=True, slots=True)
class _Unit:
    """Columns that are taken from one side together: those of a row, or one property."""

    rows: npt.NDArray[np.intp]
    """The indexes of the unit's columns in the table."""
    column: str | None = None
    """The property, unless the unit is the rest of the row."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Applies rules and decisions to the conflicts of one type."""

    type: NodeType | EdgeType
    rules: Rules
    decisions: Decisions
    find_newer: FindNewer
    granularity: Granularity

    def resolve(self, sides: TableSides, conflicts: Entities) -> ResolvedConflicts:
        batches = conflicts.batches(CONFLICTS_AT_ONCE)
        return ResolvedConflicts.concatenate(
            [self._resolve(sides, some) for some in batches], self.type
        )

    def _resolve(self, sides: TableSides, some: Entities) -> ResolvedConflicts:
        decided = np.array([id in self.decisions for id in some.ids.to_pylist()], np.bool_)
        by_hand = self._resolve_by_hand(sides, some.filter(decided))
        by_rule = self._resolve_by_rule(sides, some.filter(~decided))
        return ResolvedConflicts.concatenate([by_hand, by_rule], self.type)

    def list_conflicting(self, sides: TableSides, some: Entities) -> list[tuple[str, ...]]:
        """List the undecided properties of each remaining entity."""
        in_both = some.has("source") & some.has("target")
        masks = np.zeros((len(sides.columns), len(some)), np.bool_)
        masks[:, in_both] = self._combine_units(sides, some.filter(in_both)).undecided
        order = [sides.columns.index(name) for name in build_logical_schema(self.type).names]
        names = np.array(sides.columns, object)[order]
        return [tuple(names[mask]) for mask in masks[order].T]

    # --- single decisions -------------------------------------------------------------------------

    def _resolve_by_hand(self, sides: TableSides, some: Entities) -> ResolvedConflicts:
        takes = [self.decisions[id] for id in some.ids.to_pylist()]
        kinds = np.array([take if isinstance(take, str) else "values" for take in takes], np.str_)
        counts = {DECISION: len(takes)} if takes else {}
        from_base = some.filter(kinds == "base")
        if not sides.base_is_known:
            self._require_base(from_base, np.ones(len(from_base), np.bool_))
        gone = ~from_base.has("base")
        parts = [
            self._take_side(sides, some.filter(kinds == "source"), ConflictRule.THEIRS),
            self._take_side(sides, some.filter(kinds == "target"), ConflictRule.OURS),
            self._take_base(sides, from_base.filter(~gone)),
            self._take_values(sides, some.filter(kinds == "values")),
            self._make(deleted=from_base.filter(gone).ids, counts=counts),
        ]
        return ResolvedConflicts.concatenate(parts, self.type)

    def _make(
        self,
        *,
        taken: Entities = _NO_ENTITIES,
        combined: tuple[CombinedRows, ...] = (),
        rows: pa.Table | None = None,
        deleted: pa.Array | None = None,
        undecided: Entities = _NO_ENTITIES,
        counts: Mapping[str, int] | None = None,
        added: int = 0,
    ) -> ResolvedConflicts:
        rows = build_logical_schema(self.type).empty_table() if rows is None else rows
        deleted = pa.array([], pa.string()) if deleted is None else deleted
        return ResolvedConflicts(taken, combined, rows, deleted, undecided, counts or {}, added)

    def _take_side(
        self, sides: TableSides, some: Entities, rule: ConflictRule
    ) -> ResolvedConflicts:
        """Take the conflicting properties from one side, or the row if a side lacks it."""
        rest, combined = some, list[CombinedRows]()
        if self.granularity is Granularity.PROPERTY:
            in_both = some.has("source") & some.has("target")
            rest = some.filter(~in_both)
            found = self._combine_units(sides, some.filter(in_both), forced=rule)
            combined.append(found.rows.filter(found.changed))
        taken = rest if rule is ConflictRule.THEIRS else _NO_ENTITIES
        return self._make(taken=taken, combined=tuple(combined))

    def _take_base(self, sides: TableSides, some: Entities) -> ResolvedConflicts:
        added, in_both = int((~some.has("target")).sum()), np.zeros(len(some), np.bool_)
        if self.granularity is Granularity.PROPERTY:
            in_both = some.has("source") & some.has("target")
        whole, mixed = some.filter(~in_both), some.filter(in_both)
        if isinstance(sides.base, VirtualRows):
            unknown = ~sides.base.mask_known(whole.base, sides.columns)
            self._require_base(whole, mask_any(unknown))
        parts = [_read_rows(sides.base, whole.base, self.type)]
        if len(mixed):
            parts.append(self._take_base_properties(sides, mixed))
        return self._make(rows=pa.concat_tables(parts), added=added)

    def _take_base_properties(self, sides: TableSides, some: Entities) -> pa.Table:
        """Take the conflicting properties from the base, and merge the others."""
        found = self._combine_units(sides, some, forced=ConflictRule.OURS)
        for name, unknown in zip(sides.columns, found.clash & ~found.base_is_known, strict=True):
            self._require_base(some, unknown, name)
        rows, base = self._read_combined(found.rows), _read_rows(sides.base, some.base, self.type)
        for name, clash in zip(sides.columns, found.clash, strict=True):
            if clash.any():
                column = pc.if_else(pa.array(clash), base.column(name), rows.column(name))
                rows = _set_column(rows, name, column)
        return rows

    def _require_base(self, some: Entities, unknown: Mask, column: str | None = None) -> None:
        """Raise if a decision takes the base of an entity whose base is unknown."""
        if unknown.any():
            what = "it" if column is None else f"'{column}'"
            raise BadRequest(
                f"the decision about {self.type.name} '{some.ids[int(np.argmax(unknown))]}' is "
                "'base', but there is no single base: the newest common commits contradict each "
                f"other about {what}"
            )

    def _take_values(self, sides: TableSides, some: Entities) -> ResolvedConflicts:
        """Write the decided values to the target's rows, or else to the source's.

        By property, the other properties are merged as usual; where they conflict without a
        rule, those of the target are kept.
        """
        in_target = some.has("target")
        left, gone = some.filter(in_target), some.filter(~in_target)
        parts = [_read_rows(sides.source, gone.source, self.type)]
        if self.granularity is Granularity.PROPERTY:
            in_both = left.has("source")
            found = self._combine_units(sides, left.filter(in_both), fallback=ConflictRule.OURS)
            parts.append(self._read_combined(found.rows))
            left = left.filter(~in_both)
        parts.append(_read_rows(sides.target, left.target, self.type))
        rows = self._replace_values(pa.concat_tables(parts))
        return self._make(rows=rows, added=len(gone))

    def _read_combined(self, rows: CombinedRows) -> pa.Table:
        names = build_logical_schema(self.type).names
        found = rows.read(names, batch_rows=max(len(rows), 1), blob_bytes=True)
        parts = [convert_from_table_rows(part, self.type) for part in found]
        return pa.concat_tables([build_logical_schema(self.type).empty_table(), *parts])

    def _replace_values(self, rows: pa.Table) -> pa.Table:
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
            rows = _set_column(rows, property_.name, column)
        return rows

    def _check_values(self, rows: pa.Table, property_: Property, decided: pa.Array) -> None:
        """Raise if a decision has a value that the property cannot have."""
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
        """Resolve rows that one side lacks as a whole, and the others unit by unit."""
        by_row = np.ones(len(some), np.bool_)
        properties = self.rules.for_properties(self.type.name)
        if properties or self.granularity is Granularity.PROPERTY:
            by_row = ~(some.has("source") & some.has("target"))
        resolved = self._resolve_rows(some.filter(by_row))
        if by_row.all():
            return resolved
        rest = some.filter(~by_row)
        found = self._combine_units(sides, rest)
        decided = ~mask_any(found.undecided)
        counts = Counter[str]()
        for label, number in found.decided.items():
            counts[label] += int(number[decided].sum())
        in_units = self._make(
            combined=(found.rows.filter(decided & found.changed),),
            undecided=rest.filter(~decided),
            counts=+counts,
        )
        return ResolvedConflicts.concatenate([resolved, in_units], self.type)

    def _resolve_rows(self, some: Entities) -> ResolvedConflicts:
        rule = self.rules.for_rows(self.type.name)
        if rule is None or not len(some):
            return self._make(undecided=some)
        counts = {self.rules.label(self.type.name): len(some)}
        return self._make(taken=some.filter(self._takes_source(rule, some.ids)), counts=counts)

    def _takes_source(self, rule: ConflictRule, ids: pa.Array, column: str | None = None) -> Mask:
        """Mask the entities whose rule takes the source."""
        if rule is ConflictRule.NEWEST and len(ids):
            return self.find_newer(self.type.table_key, ids, column)
        return np.full(len(ids), rule is ConflictRule.THEIRS)

    def _list_units(self, sides: TableSides) -> list[_Unit]:
        """Split the columns into units: each on its own, or only those with a rule."""
        names = np.array(sides.columns, object)
        apart = np.ones(len(names), np.bool_)
        if self.granularity is Granularity.ENTITY:
            apart = np.isin(names, list(self.rules.for_properties(self.type.name)))
        units = [_Unit(np.array([at]), str(names[at])) for at in np.flatnonzero(apart)]
        rest = np.flatnonzero(~apart)
        return [*units, _Unit(rest)] if len(rest) else units

    def _combine_units(
        self,
        sides: TableSides,
        some: Entities,
        *,
        forced: ConflictRule | None = None,
        fallback: ConflictRule | None = None,
    ) -> _CombinedUnits:
        """Combine rows that both sides have; `forced` overrides the rules.

        `fallback` applies where no rule does.
        """
        changes = compare_columns(sides, some)
        result = _CombinedUnits.start(sides, some, changes)
        for unit in self._list_units(sides):
            clash = result.compare_unit(changes, unit)
            if not clash.any():
                continue
            rule = forced or self._find_rule(unit) or fallback
            decides = clash
            if rule is None:
                decides = np.zeros_like(clash)
            elif rule in NEED_BASE:
                decides = clash & changes.base_is_known[unit.rows[0]]
            result.undecided[unit.rows] = changes.differ[unit.rows] & clash & ~decides
            if rule is None or not decides.any():
                continue
            label = self.rules.label(self.type.name, unit.column)
            result.decided[label] = result.decided.get(label, 0) + decides.astype(np.int64)
            if rule in WHOLE_ROW:
                ids = some.ids.filter(pa.array(decides))
                result.from_source[np.ix_(unit.rows, decides)] = self._takes_source(
                    rule, ids, unit.column
                )
            else:
                assert unit.column is not None, f"'{rule}' is given for one property"
                values = self._compute(rule, sides, some, unit.column, decides, result)
                result.computed[unit.column] = values
        return result

    def _find_rule(self, unit: _Unit) -> ConflictRule | None:
        rule = self.rules.for_rows(self.type.name)
        if unit.column is None:
            return rule
        return self.rules.for_properties(self.type.name).get(unit.column, rule)

    def _compute(
        self,
        rule: ConflictRule,
        sides: TableSides,
        some: Entities,
        name: str,
        decides: Mask,
        result: _CombinedUnits,
    ) -> pa.Array:
        """Compute a column: by the rule where it decides, else from one side."""
        kind = build_logical_schema(self.type).field(name).type
        source, target, known = (
            _read_column(table, addresses, name, kind)
            for table, addresses in (
                (sides.source, some.source),
                (sides.target, some.target),
                (sides.base, some.base.drop_null()),
            )
        )
        base = _spread(known, some.has("base"))
        chosen = combine_values(rule, base, source, target, f"{self.type.name}.{name}")
        from_source = result.from_source[sides.columns.index(name)]
        kept = pc.if_else(pa.array(from_source), source, target)
        values = pc.if_else(pa.array(decides), chosen, kept)
        result.computed_changed[:] |= ~compare_values(values, target)
        return values


@dataclass(frozen=True, slots=True)
class _CombinedUnits:
    """Rows combined unit by unit from both sides, and the remaining conflicts."""

    sides: TableSides
    entities: Entities
    from_source: Masks
    clash: Masks
    base_is_known: Masks
    undecided: Masks
    computed: dict[str, pa.Array]
    computed_changed: Mask
    """Mask of computed values that differ from the target's."""
    decided: dict[str, npt.NDArray[np.int64]]
    """For each rule, the number of units of each entity that it decides."""

    @classmethod
    def start(cls, sides: TableSides, some: Entities, changes: ColumnChanges) -> _CombinedUnits:
        empty, known = np.zeros_like(changes.clash), changes.base_is_known
        changed = np.zeros(len(some), np.bool_)
        return cls(sides, some, empty, empty.copy(), known, empty.copy(), {}, changed, {})

    def compare_unit(self, changes: ColumnChanges, unit: _Unit) -> Mask:
        """Record the source's share of a unit; mask the entities where it conflicts."""
        by_source, by_target, differ = (
            mask_any(masks[unit.rows])
            for masks in (changes.by_source, changes.by_target, changes.differ)
        )
        clash: Mask = by_source & by_target & differ
        self.from_source[unit.rows] = by_source & ~by_target
        self.clash[unit.rows] = clash
        return clash

    @property
    def changed(self) -> Mask:
        """The rows that differ from the target's."""
        return mask_any(self.from_source) | self.computed_changed

    @property
    def rows(self) -> CombinedRows:
        packed = pack_masks(self.from_source)
        return CombinedRows(self.sides, self.entities, packed, self.computed)


def _read_rows(table: RowSource, addresses: pa.Array, type_: NodeType | EdgeType) -> pa.Table:
    names = build_logical_schema(type_).names
    found = pa.concat_tables(list(read_rows(table, addresses, names, blob_bytes=True)))
    return convert_from_table_rows(found, type_)


def _read_column(table: RowSource, addresses: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    found = pa.concat_tables(list(read_rows(table, addresses, [name])))
    values = found.column(name).cast(kind)
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _spread(values: pa.Array, present: Mask) -> pa.Array:
    """Scatter the values to their positions, with nulls elsewhere."""
    offsets = np.cumsum(present) - 1
    return values.take(pa.array(offsets, pa.int64(), mask=~present))


def _set_column(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, rows.schema.field(at), column)
