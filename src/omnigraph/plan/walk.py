"""Questions about plans: which variables and properties an expression uses, what lies below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
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
from omnigraph.plan.nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
    Expand,
    FilterRows,
    Match,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    Project,
    Rank,
    Slice,
    Sort,
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
    """The values that stand for a variable, a constant or a parameter inside an expression."""
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
    """Whether a predicate needs a score, which is known only once the match is complete."""
    return any(
        isinstance(leaf, VectorDistance | TextScore | FusedScore)
        for operand in list_operands_of(predicate)
        for leaf in list_leaves(operand)
    )


def list_fused_scores(values: Iterable[Output]) -> frozenset[FusedScore]:
    """The fused scores that some values are made of; each ranks all rows of the match."""
    leaves = (leaf for value in values for leaf in list_leaves(value))
    return frozenset(leaf for leaf in leaves if isinstance(leaf, FusedScore))


def list_conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """The parts that must all hold."""
    if isinstance(predicate, AllOf):
        for item in predicate.items:
            yield from list_conjuncts(item)
    else:
        yield predicate


def list_used_properties(value: Output) -> Iterator[tuple[str, str]]:
    """(variable, property) for every property whose value is needed; searched ones are not."""
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
