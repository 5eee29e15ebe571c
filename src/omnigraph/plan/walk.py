"""Walk plans: variables and properties of expressions, children of nodes, types they touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import assert_never

from omnigraph.plan.expressions import (
    AggregateValue,
    AllOf,
    AnyOf,
    Compare,
    Constant,
    EntityId,
    FusedScore,
    HopCount,
    InList,
    IsNull,
    NotP,
    NowValue,
    ObjectValue,
    Operand,
    Output,
    OutputValue,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    TypeNameValue,
    VectorDistance,
)
from omnigraph.plan.plan_nodes import (
    ROW,
    Aggregate,
    AntiJoin,
    CrossJoin,
    DeleteEntities,
    Expand,
    FilterRows,
    InsertEntity,
    Match,
    MutationPlan,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    PatternEdge,
    PatternNode,
    Plan,
    Project,
    Rank,
    Slice,
    Sort,
    UpdateEntities,
)


def list_operands_of(predicate: Predicate) -> Iterator[Operand]:
    """The operands a predicate compares, at any depth."""
    match predicate:
        case Compare(left, _, right):
            yield left
            yield right
        case InList(value, items):
            yield value
            yield items
        case IsNull(operand):
            yield operand
        case TextMatch():
            yield predicate
        case AllOf(items) | AnyOf(items):
            for item in items:
                yield from list_operands_of(item)
        case NotP(item):
            yield from list_operands_of(item)
        case _:
            assert_never(predicate)


def list_leaves(value: Output) -> Iterator[Operand]:
    """The leaves of an expression: variables, constants and parameters."""
    match value:
        case AggregateValue():
            yield from list_leaves(value.argument)
        case ObjectValue():
            for _, field in value.fields:
                yield field
        case FusedScore():
            yield value
            yield from list_leaves(value.first)
            yield from list_leaves(value.second)
        case VectorDistance() | TextScore() | TextMatch():
            yield value
            yield from list_leaves(value.query)
        case (
            Constant()
            | ParameterValue()
            | NowValue()
            | PropertyValue()
            | EntityId()
            | TypeNameValue()
            | HopCount()
            | OutputValue()
        ):
            yield value
        case _:
            assert_never(value)


def list_variables(value: Output) -> frozenset[str]:
    return frozenset(
        leaf.variable
        for leaf in list_leaves(value)
        if not isinstance(leaf, Constant | ParameterValue | NowValue | OutputValue)
    )


def list_predicate_variables(predicate: Predicate) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for operand in list_operands_of(predicate):
        found |= list_variables(operand)
    return found


def has_score(predicate: Predicate) -> bool:
    """Return whether a predicate needs a score, which requires the complete match."""
    return any(
        isinstance(leaf, VectorDistance | TextScore | FusedScore)
        for operand in list_operands_of(predicate)
        for leaf in list_leaves(operand)
    )


def list_fused_scores(values: Iterable[Output]) -> frozenset[FusedScore]:
    """The fused scores within some values; each ranks all rows of the match."""
    leaves = (leaf for value in values for leaf in list_leaves(value))
    return frozenset(leaf for leaf in leaves if isinstance(leaf, FusedScore))


def list_conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the members of a conjunction."""
    if isinstance(predicate, AllOf):
        for item in predicate.items:
            yield from list_conjuncts(item)
    else:
        yield predicate


def list_used_properties(value: Output) -> Iterator[tuple[str, str]]:
    """Yield (variable, property) for every property value used; searched ones are not."""
    for leaf in list_leaves(value):
        if isinstance(leaf, PropertyValue):
            yield leaf.variable, leaf.property


def list_children(node: Node) -> tuple[Node, ...]:
    match node:
        case Match() | OuterRows() | NodeScan():
            return ()
        case CrossJoin(left, right):
            return (left, right)
        case AntiJoin(child, inner) | OptionalJoin(child, inner):
            return (child, inner)
        case Expand() | FilterRows() | Rank() | Project() | Aggregate() | Sort() | Slice():
            return (node.child,)
        case _:
            assert_never(node)


def map_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with every child replaced by `change(child)`."""
    match node:
        case Match() | OuterRows() | NodeScan():
            return node
        case CrossJoin(left, right):
            return CrossJoin(change(left), change(right))
        case AntiJoin() | OptionalJoin():
            return replace(node, child=change(node.child), inner=change(node.inner))
        case Expand() | FilterRows() | Rank() | Project() | Aggregate() | Sort() | Slice():
            return replace(node, child=change(node.child))
        case _:
            assert_never(node)


def list_property_reads(plan: Plan) -> frozenset[tuple[str, str]]:
    """Yield (type, property) for every property that a plan reads, searches or returns.

    Properties that a mutation only assigns are not read.
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
