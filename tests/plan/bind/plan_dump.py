"""A bound plan as a few readable lines, for cases to be compared with."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.plan.explain import render_all, render_predicate, render_value
from omnigraph.plan.plan_nodes import (
    Aggregate,
    DeleteEntities,
    Direction,
    InsertEntity,
    Match,
    MutationPlan,
    MutationStatement,
    Node,
    OutputColumn,
    Pattern,
    PatternEdge,
    PatternNode,
    Plan,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
    SortKey,
    UpdateEntities,
)


def dump(plan: Plan) -> str:
    lines = _read(plan) if isinstance(plan, ReadPlan) else _mutation(plan)
    return "\n".join(lines)


def _read(plan: ReadPlan) -> Iterator[str]:
    yield from _tail(plan.root)
    yield f"reads {_facts(plan.reads)}"


def _tail(node: Node) -> Iterator[str]:
    match node:
        case Match(pattern):
            yield "match"
            yield from _pattern(pattern, "  ")
            return
        case Slice():
            yield from _tail(node.child)
            limit = "" if node.limit is None else f" limit {render_value(node.limit)}"
            offset = "" if node.offset is None else f" offset {render_value(node.offset)}"
            yield f"slice{limit}{offset}"
        case Sort():
            yield from _tail(node.child)
            ties = [*(f"${name}" for name in node.tie_break), *node.tie_columns]
            yield f"sort [{_keys(node.keys)}] then [{', '.join(ties)}]"
        case Rank():
            yield from _tail(node.child)
            ties = ", ".join(f"${name}" for name in node.tie_break)
            ranking = render_value(node.ranking)
            yield f"rank {ranking} [{_keys(node.keys)}] then [{ties}]"
        case Project():
            yield from _tail(node.child)
            yield "distinct" if node.distinct else "project"
            yield from map(_column, node.columns)
        case Aggregate():
            yield from _tail(node.child)
            yield f"group by [{', '.join(c.name for c in node.keys)}]"
            yield from map(_column, node.columns)
        case _:
            raise AssertionError(f"{type(node).__name__} is not part of a bound plan")


def _keys(keys: tuple[SortKey, ...]) -> str:
    return ", ".join(f"{render_value(k.value)}{' desc' if k.descending else ''}" for k in keys)


def _column(column: OutputColumn) -> str:
    return f"  {column.name}: {column.type} = {render_value(column.value)}"


def _pattern(pattern: Pattern, indent: str) -> Iterator[str]:
    for node in pattern.nodes:
        yield f"{indent}{_node(node)}"
    for edge in pattern.edges:
        yield f"{indent}{_edge(edge)}"
    for predicate in pattern.filters:
        yield f"{indent}where {render_predicate(predicate)}"
    for word, nested in (("not", pattern.negations), ("optional", pattern.optionals)):
        for inner in nested:
            yield f"{indent}{word} [{', '.join(f'${name}' for name in inner.outer)}]"
            yield from _pattern(inner, f"{indent}  ")


def _node(node: PatternNode) -> str:
    name = f"${node.variable}: {'|'.join(node.types)}"
    interface = f" as {node.interface}" if node.interface else ""
    undeclared = "" if node.declared else " (end)"
    where = f" where {render_all(node.filters)}" if node.filters else ""
    return f"{name}{interface}{undeclared}{where}"


def _edge(edge: PatternEdge) -> str:
    arrows = {Direction.OUT: "->", Direction.IN: "<-", Direction.BOTH: "--"}
    steps = "|".join(f"{s.edge_type}{arrows[s.direction]}" for s in edge.steps)
    variable = f"${edge.edge_variable}:" if edge.edge_variable else ""
    one = (edge.minimum, edge.maximum) == (1, 1)
    bounds = "" if one else f"{{{edge.minimum},{edge.maximum}}}"
    hops = f" hops ${edge.hop_variable}" if edge.hop_variable else ""
    return f"${edge.source} {variable}{steps}{bounds} ${edge.target}{hops}"


def _mutation(plan: MutationPlan) -> Iterator[str]:
    for statement in plan.statements:
        yield from _statement(statement)
    yield f"reads {_facts(plan.reads)}"
    yield f"writes {_facts(plan.writes)}"
    yield f"touches {', '.join(plan.touched)}"


def _statement(statement: MutationStatement) -> Iterator[str]:
    match statement:
        case InsertEntity():
            yield f"insert {statement.table_key} {statement.mode}"
        case UpdateEntities():
            yield f"update {statement.table_key} where {render_predicate(statement.where)}"
        case DeleteEntities():
            cascades = ", ".join(f"{table}.{column}" for table, column in statement.cascades)
            yield f"delete {statement.table_key} where {render_predicate(statement.where)}"
            if cascades:
                yield f"  cascades {cascades}"
            return
    for assignment in statement.assignments:
        yield f"  {assignment.column}: {assignment.type} = {render_value(assignment.value)}"


def _facts(facts: tuple) -> str:
    return ", ".join(f"{fact.kind} {fact.type_name}" for fact in facts)
