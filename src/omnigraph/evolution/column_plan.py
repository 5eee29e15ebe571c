"""What becomes of the columns of one table: kept, renamed, dropped, added empty or filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType, Property
from omnigraph.evolution.fillings import ComputedFilling, ConstantFilling, ConvertedFilling, Filling
from omnigraph.execution.assignments import get_default_value
from omnigraph.execution.stored_rows import build_table_schema
from omnigraph.identity import PropertyId
from omnigraph.storage.tables import Column, EmptyColumn, FilledColumn, KeptColumn

Entity = NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The columns of a table as they shall be, in order, and how those are filled that are new."""

    columns: tuple[Column, ...]
    fillings: tuple[Filling, ...] = ()

    def changes(self, stored: pa.Schema) -> bool:
        """Whether a table with these columns becomes another one."""
        wanted = [c.field for c in self.columns]
        is_same = all(isinstance(c, KeptColumn) for c in self.columns)
        return not is_same or not pa.schema(wanted).equals(stored)


def plan_columns(
    stored: pa.Schema, before: Entity, after: Entity, expressions: Mapping[str, str]
) -> ColumnPlan:
    """The way from the columns a table has to those its type wants.

    `expressions` give properties their values in the rows that are there.

    A column whose values are already what the type wants is kept, whatever it was called. The
    substrate changes whether NULL is allowed only where it adds no column; where it must do both,
    the column is written anew.
    """
    wanted = build_table_schema(after)
    was = {p.id: p for p in before.properties}
    properties = {p.name: p for p in after.properties}
    adds = bool(expressions) or any(_is_added(p, was) for p in after.properties)
    columns: list[Column] = []
    fillings: list[Filling] = []
    for name in wanted.names:
        if name not in properties:
            columns.append(KeptColumn(stored.field(name), name))
            continue
        property_, field_ = properties[name], wanted.field(name)
        old = was.get(property_.id)
        filling: Filling | None
        if name in expressions:
            filling = ComputedFilling(field_, expressions[name])
        elif old is None:
            filling = _fill_first_values(property_, field_, after)
        else:
            there = stored.field(old.name)
            filling = _convert_column(there, field_, adds=adds)
            if filling is None:
                columns.append(KeptColumn(field_, old.name))
                continue
        if filling is None:
            columns.append(EmptyColumn(field_))
        else:
            columns.append(FilledColumn(field_))
            fillings.append(filling)
    return ColumnPlan(tuple(columns), tuple(fillings))


def _is_added(property_: Property, was: Mapping[PropertyId, Property]) -> bool:
    """Whether the property takes a new column."""
    old = was.get(property_.id)
    return old is None or _find_stored_kind(old) != _find_stored_kind(property_)


def _find_stored_kind(property_: Property) -> tuple[object, ...]:
    """What the type of a column depends on besides whether it may be NULL."""
    type_ = property_.type
    return (type_.scalar, type_.is_list, type_.dimension)


def _fill_first_values(property_: Property, field_: pa.Field, type_: Entity) -> Filling | None:
    if property_.default is None:
        return None
    value = get_default_value(property_, f"{type_.name}.{property_.name}")
    return ConstantFilling(field_, value.as_py())


def _convert_column(there: pa.Field, wanted: pa.Field, *, adds: bool) -> Filling | None:
    if there.type == wanted.type and (there.nullable == wanted.nullable or not adds):
        return None
    return ConvertedFilling(wanted, there.name)
