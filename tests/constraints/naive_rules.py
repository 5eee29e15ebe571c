"""The rules once more, in dictionaries and loops: slow, obvious, and written without Arrow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from omnigraph.catalog.catalog import Catalog, Constraint, ConstraintKind, EdgeType, NodeType
from omnigraph.types.canonical_strings import encode_canonical
from omnigraph.types.property import INTEGERS

Row = Mapping[str, object]
Found = set[tuple[str, str, str]]
"""Kind, table and message of every violation."""


@dataclass(frozen=True)
class Change:
    """The changes of a write to one table."""

    rows: Sequence[Row] = ()
    deleted: frozenset[str] = field(default_factory=frozenset)
    replaces_all: bool = False

    @property
    def written(self) -> set[str]:
        return {str(row["id"]) for row in self.rows}


@dataclass(frozen=True)
class NaiveRules:
    catalog: Catalog
    committed: Mapping[str, Sequence[Row]]
    changes: Mapping[str, Change]

    def violations(self) -> Found:
        found: Found = set()
        for key, change in self.changes.items():
            type_ = self.catalog.by_table_key[key]
            for row in change.rows:
                found |= {("value_constraint_violation", key, m) for m in wrong_values(type_, row)}
            found |= {("unique_violation", key, m) for m in self._duplicates(type_, change)}
        for edge in self.catalog.edges.values():
            key = str(edge.table_key)
            found |= {("orphan_edge", key, m) for m in self._orphans(edge)}
            found |= {("cardinality_violation", key, m) for m in self._miscounted(edge)}
        return found

    def _of(self, key: str) -> Change:
        return self.changes.get(key, Change())

    def _kept(self, key: str) -> list[Row]:
        """Committed rows the write neither replaces nor deletes."""
        change = self._of(key)
        if change.replaces_all:
            return []
        gone = change.written | change.deleted
        return [row for row in self.committed.get(key, ()) if row["id"] not in gone]

    def _duplicates(self, type_: NodeType | EdgeType, change: Change) -> list[str]:
        messages = []
        for constraint in type_.constraints:
            if constraint.kind not in (ConstraintKind.KEY, ConstraintKind.UNIQUE):
                continue
            first: dict[tuple[str, ...], str] = {}
            for row in change.rows:
                values = tuple_of(type_, row, constraint)
                if values is not None and values in first:
                    messages.append(
                        held_twice(type_, constraint, values, first[values], str(row["id"]))
                    )
                elif values is not None:
                    first[values] = str(row["id"])
            if constraint.kind is ConstraintKind.UNIQUE:
                messages += self._taken(type_, constraint, change)
        return messages

    def _taken(
        self, type_: NodeType | EdgeType, constraint: Constraint, change: Change
    ) -> list[str]:
        holders: dict[tuple[str, ...], str] = {}
        for row in self._kept(type_.table_key):
            values = tuple_of(type_, row, constraint)
            if values is not None:
                holders[values] = min(str(row["id"]), holders.get(values, str(row["id"])))
        messages = []
        for row in change.rows:
            values = tuple_of(type_, row, constraint)
            if values is not None and values in holders:
                messages.append(
                    held_twice(type_, constraint, values, holders[values], str(row["id"]))
                )
        return messages

    def _orphans(self, edge: EdgeType) -> list[str]:
        messages = []
        for name, node_type in (("src", edge.from_type), ("dst", edge.to_type)):
            nodes = f"node:{node_type}"
            there = {row["id"] for row in self._kept(nodes)} | self._of(nodes).written
            ends = [row[name] for row in self._of(edge.table_key).rows if row[name] not in there]
            deleted = self._of(nodes).deleted
            ends += [row[name] for row in self._kept(edge.table_key) if row[name] in deleted]
            messages += [f"{name} '{end}' not found in {node_type}" for end in ends]
        return messages

    def _miscounted(self, edge: EdgeType) -> list[str]:
        key = edge.table_key
        change = self._of(key)
        touched = {row["src"] for row in change.rows}
        for row in self.committed.get(key, ()):
            if change.replaces_all or row["id"] in change.written | change.deleted:
                touched.add(row["src"])
        after = [*self._kept(key), *change.rows]
        messages = []
        for source in touched - self._of(f"node:{edge.from_type}").deleted:
            count = sum(1 for row in after if row["src"] == source)
            start = f"@card violation on edge {edge.name}: source '{source}' has {count} edges"
            if count < edge.minimum:
                messages.append(f"{start} (min {edge.minimum})")
            if edge.maximum is not None and count > edge.maximum:
                messages.append(f"{start} (max {edge.maximum})")
        return messages


def wrong_values(type_: NodeType | EdgeType, row: Row) -> list[str]:
    messages = []
    for constraint in type_.constraints:
        name = constraint.columns[0]
        value = row.get(name)
        where = f"{type_.name}.{name}"
        if value is None:
            continue
        if constraint.kind is ConstraintKind.RANGE:
            problem = out_of_range(
                value, constraint, whole=type_.by_name[name].type.scalar in INTEGERS
            )
            if problem is not None:
                messages.append(f"@range violation on {where}: value {problem}")
        if constraint.kind is ConstraintKind.CHECK:
            pattern = str(constraint.pattern)
            if re.search(pattern.replace("$", r"\Z"), str(value)) is None:
                shown = f"value '{value}' does not match pattern '{pattern}'"
                messages.append(f"@check violation on {where}: {shown}")
    for property_ in type_.properties:
        value, members = row.get(property_.name), property_.type.enum_values
        if members is not None and value is not None and value not in members:
            where, expected = f"{type_.name}.{property_.name}", ", ".join(members)
            messages.append(f"invalid enum value '{value}' for {where} (expected: {expected})")
    return messages


def out_of_range(value: object, constraint: Constraint, *, whole: bool) -> str | None:
    number = Fraction if whole else float
    if value != value:
        return "is NaN"
    if constraint.low is not None and value < number(constraint.low):
        return f"{value} < min {constraint.low}"
    if constraint.high is not None and value > number(constraint.high):
        return f"{value} > max {constraint.high}"
    return None


def tuple_of(
    type_: NodeType | EdgeType, row: Row, constraint: Constraint
) -> tuple[str, ...] | None:
    values = [row.get(name) for name in constraint.columns]
    if any(value is None for value in values):
        return None
    return tuple(
        str(value) if name in ("src", "dst") else encode_canonical(value, type_.by_name[name].type)
        for name, value in zip(constraint.columns, values, strict=True)
    )


def held_twice(
    type_: NodeType | EdgeType,
    constraint: Constraint,
    values: tuple[str, ...],
    first: str,
    second: str,
) -> str:
    names = constraint.columns
    where = names[0] if len(names) == 1 else f"({', '.join(names)})"
    value = values[0] if len(values) == 1 else f"({', '.join(values)})"
    held = "given twice" if first == second else f"held by '{first}' and '{second}'"
    return f"@unique violation on {type_.name}.{where}: value '{value}' {held}"
