"""Which properties of which types the values of a plan are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from omnigraph.plan.expressions import PropertyValue, TextMatch, TextScore, VectorDistance
from omnigraph.plan.nodes import (
    ROW,
    DeleteEntities,
    Expand,
    InsertEntity,
    MutationPlan,
    NodeScan,
    PatternEdge,
    PatternNode,
    Plan,
    UpdateEntities,
)


def list_property_reads(plan: Plan) -> frozenset[tuple[str, str]]:
    """(type, property) for every property that a plan looks at, searches or gives.

    What a mutation only assigns to is not read.
    """
    if isinstance(plan, MutationPlan):
        return frozenset().union(*(_reads_of(one) for one in plan.statements))
    values = list(_values_in(plan))
    types = _types_of_variables(values)
    return frozenset(_list_named(values, types))


def _reads_of(
    statement: InsertEntity | UpdateEntities | DeleteEntities,
) -> frozenset[tuple[str, str]]:
    type_name = statement.table_key.partition(":")[2]
    return frozenset(_list_named(_values_in(statement), {ROW: (type_name,)}))


def _types_of_variables(values: Iterable[object]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for value in values:
        match value:
            case PatternNode(variable, types) | NodeScan(variable, types):
                found[variable] = (*found.get(variable, ()), *types)
            case PatternEdge() | Expand():
                if value.edge_variable is not None:
                    found[value.edge_variable] = tuple(step.edge_type for step in value.steps)
                if isinstance(value, Expand):
                    found[value.target] = (*found.get(value.target, ()), *value.target_types)
            case _:
                pass
    return found


def _list_named(
    values: Iterable[object], types: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    for value in values:
        if isinstance(value, PropertyValue | VectorDistance | TextScore | TextMatch):
            for type_name in types.get(value.variable, ()):
                yield type_name, value.property


def _values_in(value: object) -> Iterator[object]:
    """Every plan node and expression inside a value, itself first."""
    if isinstance(value, tuple):
        for one in value:
            yield from _values_in(one)
    elif is_dataclass(value):
        yield value
        for field in fields(value):
            yield from _values_in(getattr(value, field.name))
