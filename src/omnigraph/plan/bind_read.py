"""A read: the pattern and, above it, the tail that orders, projects and slices its rows."""

from __future__ import annotations

from omnigraph.language.query.query_ast import Binding, QueryDecl, ReadBody, Traversal
from omnigraph.plan.bind_expressions import MatchNames
from omnigraph.plan.bind_match import bind_clauses
from omnigraph.plan.bind_order import BoundOrder, bind_order, bind_row_count
from omnigraph.plan.bind_return import bind_projections, is_grouped
from omnigraph.plan.expressions import Constant, ParameterValue
from omnigraph.plan.facts import list_pattern_facts
from omnigraph.plan.nodes import (
    Aggregate,
    DeclaredParameter,
    Match,
    Node,
    OutputColumn,
    Pattern,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
)
from omnigraph.plan.scope import BindContext, Block, EdgeVariable, NodeVariable, list_bound_names
from omnigraph.plan.walk import has_score, list_conjuncts, list_predicate_variables

MAX_STEPS = 200
"""A larger match is refused here, with a position: plans are walked recursively, step by step."""


def bind_read(decl: QueryDecl, body: ReadBody, context: BindContext) -> ReadPlan:
    """The plan of a read; it is of no use when the context has mistakes afterwards."""
    block = Block(context, bound=list_bound_names(body.clauses))
    bind_clauses(body.clauses, block)
    _require_a_node(body, block)
    names = MatchNames(block)
    returned = bind_projections(body.projections, names)
    limit = bind_row_count(body.limit, "limit", context)
    offset = bind_row_count(body.offset, "offset", context)
    grouped = is_grouped(body.projections)
    order = bind_order(
        body.order,
        returned,
        names,
        over_output=grouped or body.distinct,
        has_limit=body.limit is not None,
    )
    columns = tuple(r.column for r in returned)
    rows = Match(block.pattern())
    _refuse_too_large(rows.pattern, decl, context)
    if grouped:
        root = _bind_groups(rows, columns, order)
    elif body.distinct:
        names_of_all = tuple(column.name for column in columns)
        distinct = Project(rows, columns, distinct=True)
        root = Sort(distinct, order.keys, tie_columns=names_of_all)
    else:
        root = Project(_bind_order(rows, order, _choose_tie_break(block)), columns)
    return ReadPlan(
        name=decl.name,
        parameters=tuple(DeclaredParameter(p.name, p.type) for p in decl.parameters),
        root=_bind_slice(root, limit, offset),
        columns=columns,
        reads=list_pattern_facts(rows.pattern, context.catalog),
    )


def _require_a_node(body: ReadBody, block: Block) -> None:
    """Without any node there would be no rows to speak of; a clause that failed has said why."""
    binds = any(isinstance(clause, Binding | Traversal) for clause in body.clauses)
    if not binds and not block.has_nodes and not block.variables:
        message = "the match binds no node"
        block.context.report("T6", message, body.clauses[0].span, hint="bind one: `$x: Type`")


def _refuse_too_large(pattern: Pattern, decl: QueryDecl, context: BindContext) -> None:
    steps = count_pattern_steps(pattern)
    if steps > MAX_STEPS:
        message = f"the match takes {steps} steps; at most {MAX_STEPS}"
        hint = (
            "a binding, a traversal, a block and a condition on several variables are a step each"
        )
        context.report("T35", message, decl.name_span, hint=hint)


def count_pattern_steps(pattern: Pattern) -> int:
    """How deep the plan of a pattern can become: conditions on one variable cost no step."""
    filters = [part for predicate in pattern.filters for part in list_conjuncts(predicate)]
    between = sum(len(list_predicate_variables(part)) != 1 or has_score(part) for part in filters)
    blocks = (*pattern.negations, *pattern.optionals)
    nested = sum(1 + count_pattern_steps(block) for block in blocks)
    return len(pattern.nodes) + len(pattern.edges) + between + nested


def _bind_groups(rows: Node, columns: tuple[OutputColumn, ...], order: BoundOrder) -> Node:
    """Groups, always in order: that of their keys where no other is asked for."""
    groups = Aggregate(rows, columns)
    if not groups.keys:
        return groups
    return Sort(groups, order.keys, tie_columns=tuple(key.name for key in groups.keys))


def _bind_order(rows: Node, order: BoundOrder, tie_break: tuple[str, ...]) -> Node:
    if order.ranking is not None:
        return Rank(rows, order.ranking, order.keys, tie_break)
    return Sort(rows, order.keys, tie_break)


def _choose_tie_break(block: Block) -> tuple[str, ...]:
    """The variables whose ids make any order of rows total."""
    entities = (v for v in block.variables.values() if isinstance(v, NodeVariable | EdgeVariable))
    return tuple(sorted(v.name for v in entities))


def _bind_slice(
    root: Node, limit: Constant | ParameterValue | None, offset: Constant | ParameterValue | None
) -> Node:
    return root if limit is None and offset is None else Slice(root, limit, offset)
