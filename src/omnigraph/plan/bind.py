"""Bind a parsed query or mutation to a typed plan; every error is reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.identity import EntityKind, make_table_key
from omnigraph.language.lexer import suggest_closest
from omnigraph.language.query_ast import (
    Binding,
    Delete,
    Insert,
    ListLiteral,
    Literal,
    MutationBody,
    PropertyMatch,
    QueryDecl,
    ReadBody,
    Statement,
    Traversal,
    Update,
)
from omnigraph.language.source import Problems, SourceText
from omnigraph.plan.bind_conditions import ENDS, RowNames, bind_condition, list_column_words
from omnigraph.plan.bind_expressions import MatchNames
from omnigraph.plan.bind_match import bind_clauses, bind_value
from omnigraph.plan.bind_output import (
    BoundOrder,
    bind_order,
    bind_projections,
    bind_row_count,
    is_grouped,
)
from omnigraph.plan.expressions import STRING, Constant, Operand, ParameterValue
from omnigraph.plan.literals import fit_literal
from omnigraph.plan.plan_nodes import (
    Aggregate,
    Assignment,
    DeclaredParameter,
    DeleteEntities,
    Fact,
    InsertEntity,
    InsertMode,
    Match,
    MutationPlan,
    MutationStatement,
    Node,
    OutputColumn,
    Pattern,
    Plan,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
    UpdateEntities,
)
from omnigraph.plan.scope import (
    ID,
    BindContext,
    Block,
    EdgeVariable,
    NodeVariable,
    find_name_span,
    list_bound_names,
)
from omnigraph.plan.walk import (
    has_score,
    list_conjuncts,
    list_predicate_variables,
)
from omnigraph.types.property import PropertyType, Scalar, are_comparable

Target = NodeType | EdgeType


def bind_assignments(
    statement: Insert | Update, target: Target, context: BindContext
) -> tuple[Assignment, ...] | None:
    """The assignments in the order written, or None when one has a mistake."""
    if not statement.assignments:
        context.report("T10", "the statement assigns nothing", statement.type_span)
        return None
    found = [_bind_assignment(match, statement, target, context) for match in statement.assignments]
    repeats = _report_repeats(statement, context)
    missing = isinstance(statement, Insert) and _report_missing(statement, target, context)
    bound = tuple(assignment for assignment in found if assignment is not None)
    return bound if len(bound) == len(found) and not repeats and not missing else None


def _report_repeats(statement: Insert | Update, context: BindContext) -> bool:
    seen: set[str] = set()
    repeats = False
    for match in statement.assignments:
        if match.name in seen:
            context.report("T13", f"'{match.name}' is assigned twice", find_name_span(match))
            repeats = True
        seen.add(match.name)
    return repeats


def _report_missing(statement: Insert, target: Target, context: BindContext) -> bool:
    """Report omitted required properties; a merge may rely on stored ones."""
    assigned = {match.name for match in statement.assignments}
    required = list(ENDS) if isinstance(target, EdgeType) else []
    key = {p.name for p in target.key} if isinstance(target, NodeType) else set()
    for property_ in target.properties:
        is_made = property_.embed is not None and property_.embed.source in assigned
        is_known = property_.default is not None or is_made or statement.partial
        omittable = property_.type.nullable or is_known
        if property_.name in key or not omittable:
            required.append(property_.name)
    missing = [name for name in required if name not in assigned]
    for name in missing:
        what = "endpoint" if isinstance(target, EdgeType) and name in ENDS else "required property"
        context.report("T12", f"{target.name} needs {what} '{name}'", statement.type_span)
    return bool(missing)


def _bind_assignment(
    match: PropertyMatch, statement: Insert | Update, target: Target, context: BindContext
) -> Assignment | None:
    column = _find_column(match, statement, target, context)
    if column is None:
        return None
    name, type_ = column
    value = _bind_value(match, type_, f"{target.name}.{match.name}", context)
    return None if value is None else Assignment(name, value, type_)


def _find_column(
    match: PropertyMatch, statement: Insert | Update, target: Target, context: BindContext
) -> tuple[str, PropertyType] | None:
    """The column an assignment names, if it may be assigned."""
    span = find_name_span(match)
    if isinstance(target, EdgeType) and match.name in ENDS:
        if isinstance(statement, Insert):
            return ENDS[match.name], STRING
        message = f"'{match.name}' cannot be assigned: an edge keeps its ends"
        context.report("T16", message, span, hint="delete the edge and insert another")
        return None
    found = target.property(match.name)
    if found is None:
        message = f"{target.name} has no property '{match.name}'"
        hint = suggest_closest(match.name, list_column_words(target))
        if match.name == ID:
            hint = "an id is made from the key, or generated"
        context.report("T11", message, span, hint=hint)
        return None
    if isinstance(statement, Update) and isinstance(target, NodeType) and found in target.key:
        message = f"cannot update @key property '{match.name}' of {target.name}"
        context.report("T30", message, span, hint="insert a new entity and delete the old one")
        return None
    return found.name, found.type


def _bind_value(
    match: PropertyMatch, type_: PropertyType, target: str, context: BindContext
) -> Operand | None:
    expression = match.value
    if isinstance(expression, Literal | ListLiteral):
        return fit_literal(
            expression,
            type_,
            target,
            lambda message: context.report("T3", message, expression.span),
        )
    value = bind_value(expression, context)
    if value is None or _may_accept(type_, value.type):
        return value
    message = f"{target} is {type_} and does not take a value of type {value.type}"
    context.report("T7", message, expression.span)
    return None


def _may_accept(column: PropertyType, value: PropertyType) -> bool:
    """Return whether a value known only at run time may fit; NULL and ranges are checked there."""
    if column.is_blob:
        return value.is_string or (value.is_blob and not value.is_list)
    return value.scalar is not Scalar.BLOB and are_comparable(column, value)


def bind_mutation(decl: QueryDecl, body: MutationBody, context: BindContext) -> MutationPlan:
    """Bind a mutation; the plan is invalid if the context has mistakes afterwards."""
    _refuse_mixture(decl, body, context)
    statements: list[MutationStatement] = []
    reads: list[Fact] = []
    writes: list[Fact] = []
    for statement in body.statements:
        target = _bind_target(statement, context)
        if target is None:
            continue
        planned = _bind_statement(statement, target, context)
        if planned is not None:
            statements.append(planned)
        effects = tuple(_list_effects(statement, target, context))
        writes += effects
        reads += [*effects, *_list_looked_up(statement, target)]
    return MutationPlan(
        name=decl.name,
        parameters=tuple(DeclaredParameter(p.name, p.type) for p in decl.parameters),
        statements=tuple(statements),
        reads=sort_facts(reads),
        writes=sort_facts(writes),
        touched=tuple(sorted({make_table_key(EntityKind(f.kind), f.type_name) for f in writes})),
    )


def _refuse_mixture(decl: QueryDecl, body: MutationBody, context: BindContext) -> None:
    """Reject deletes beside writes, since they match the state before the query."""
    deletes = [isinstance(statement, Delete) for statement in body.statements]
    if all(deletes) or not any(deletes):
        return
    odd = body.statements[deletes.index(not deletes[0])]
    message = (
        f"mutation '{decl.name}' mixes inserts/updates and deletes; split into separate mutations"
    )
    context.report("D2", message, odd.span)


# --- targets and effects ----------------------------------------------------------------------


def _bind_target(statement: Statement, context: BindContext) -> NodeType | EdgeType | None:
    """Resolve the type of a statement; a node type takes precedence over an edge type."""
    catalog, name = context.catalog, statement.type_name
    found = catalog.nodes.get(name) or catalog.edges.get(name)
    if found is None:
        hint = suggest_closest(name, [*catalog.nodes, *catalog.edges])
        if name in catalog.interfaces:
            hint = "it is an interface; name one of the node types that implement it"
        context.report("T10", f"unknown type '{name}'", statement.type_span, hint=hint)
    return found


def _list_effects(
    statement: Statement, target: NodeType | EdgeType, context: BindContext
) -> Iterator[Fact]:
    yield make_fact(target)
    if isinstance(statement, Delete) and isinstance(target, NodeType):
        yield from (make_fact(edge) for edge in context.catalog.edges_touching(target.name))


def _list_looked_up(statement: Statement, target: NodeType | EdgeType) -> Iterator[Fact]:
    """Return the types read besides the target: the ends of a new edge must exist."""
    if isinstance(statement, Insert) and isinstance(target, EdgeType):
        yield from list_edge_facts(target)


# --- statements -------------------------------------------------------------------------------


def _bind_statement(
    statement: Statement, target: NodeType | EdgeType, context: BindContext
) -> MutationStatement | None:
    match statement:
        case Insert():
            return _bind_insert(statement, target, context)
        case Update():
            assignments = bind_assignments(statement, target, context)
            where = bind_condition(statement.where, RowNames(target, context))
            if assignments is None or where is None:
                return None
            return UpdateEntities(target.table_key, assignments, where)
        case Delete():
            where = bind_condition(statement.where, RowNames(target, context))
            if where is None:
                return None
            return DeleteEntities(target.table_key, where, _list_cascades(target, context))
        case _:
            assert_never(statement)


def _bind_insert(
    statement: Insert, target: NodeType | EdgeType, context: BindContext
) -> InsertEntity | None:
    keyed = isinstance(target, NodeType) and bool(target.key)
    if statement.partial and not keyed:
        message = f"merge needs a type with a key to find the entity by; {target.name} has none"
        context.report("T29", message, statement.type_span, hint="use `insert`")
        return None
    assignments = bind_assignments(statement, target, context)
    if assignments is None:
        return None
    mode = InsertMode.STRICT
    if keyed:
        mode = InsertMode.PARTIAL if statement.partial else InsertMode.REPLACE
    return InsertEntity(target.table_key, mode, assignments)


def _list_cascades(
    target: NodeType | EdgeType, context: BindContext
) -> tuple[tuple[str, str], ...]:
    """The edge columns that may point at a deleted node."""
    if isinstance(target, EdgeType):
        return ()
    found = []
    for edge in context.catalog.edges_touching(target.name):
        if edge.from_type == target.name:
            found.append((edge.table_key, "src"))
        if edge.to_type == target.name:
            found.append((edge.table_key, "dst"))
    return tuple(sorted(found, key=lambda c: (c[0], c[1] != "src")))


MAX_STEPS = 200
"""A larger match is refused here, with a position: plans are walked recursively, step by step."""


def bind_read(decl: QueryDecl, body: ReadBody, context: BindContext) -> ReadPlan:
    """Bind a read; the plan is invalid if the context has mistakes afterwards."""
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
    """Report a match without any node, unless a clause failed and was reported."""
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
    """Return the maximum depth of the plan of a pattern; conditions on one variable add no step."""
    filters = [part for predicate in pattern.filters for part in list_conjuncts(predicate)]
    between = sum(len(list_predicate_variables(part)) != 1 or has_score(part) for part in filters)
    blocks = (*pattern.negations, *pattern.optionals)
    nested = sum(1 + count_pattern_steps(block) for block in blocks)
    return len(pattern.nodes) + len(pattern.edges) + between + nested


def _bind_groups(rows: Node, columns: tuple[OutputColumn, ...], order: BoundOrder) -> Node:
    """Order groups, by key unless an order is given."""
    groups = Aggregate(rows, columns)
    if not groups.keys:
        return groups
    return Sort(groups, order.keys, tie_columns=tuple(key.name for key in groups.keys))


def _bind_order(rows: Node, order: BoundOrder, tie_break: tuple[str, ...]) -> Node:
    if order.ranking is not None:
        return Rank(rows, order.ranking, order.keys, tie_break)
    return Sort(rows, order.keys, tie_break)


def _choose_tie_break(block: Block) -> tuple[str, ...]:
    """Return the variables whose ids make an order of rows total."""
    entities = (v for v in block.variables.values() if isinstance(v, NodeVariable | EdgeVariable))
    return tuple(sorted(v.name for v in entities))


def _bind_slice(
    root: Node, limit: Constant | ParameterValue | None, offset: Constant | ParameterValue | None
) -> Node:
    return root if limit is None and offset is None else Slice(root, limit, offset)


STAGE = "type"


def bind_query(decl: QueryDecl, catalog: Catalog, source: SourceText) -> ReadPlan | MutationPlan:
    """Bind one query; a `CompileError` has all its errors, in text order.

    The plan follows the text: filters apply to the whole pattern, and no join order is chosen.
    """
    problems = Problems(source, STAGE)
    plan = _bind(decl, catalog, problems)
    problems.raise_if_any()
    return plan


def _bind(decl: QueryDecl, catalog: Catalog, problems: Problems) -> Plan:
    parameters = {p.name: p.type for p in decl.parameters}
    match decl.body:
        case ReadBody() as body:
            names = list_bound_names(body.clauses, deep=True) | parameters.keys()
            return bind_read(decl, body, BindContext(catalog, problems, parameters, names))
        case MutationBody() as body:
            return bind_mutation(decl, body, BindContext(catalog, problems, parameters))


# --- types read and written -----------------------------------------------------------------------


_KIND_ORDER = {str(EntityKind.NODE): 0, str(EntityKind.EDGE): 1}


def sort_facts(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Each fact once: nodes before edges, then by name."""
    return tuple(sorted(set(facts), key=lambda f: (_KIND_ORDER[f.kind], f.type_name)))


def make_fact(type_: NodeType | EdgeType) -> Fact:
    return Fact(str(type_.kind), type_.name)


def make_node_fact(type_name: str) -> Fact:
    return Fact(str(EntityKind.NODE), type_name)


def list_edge_facts(edge: EdgeType) -> Iterator[Fact]:
    """An edge type and the node types at its ends."""
    yield make_fact(edge)
    yield make_node_fact(edge.from_type)
    yield make_node_fact(edge.to_type)


def list_pattern_facts(pattern: Pattern, catalog: Catalog) -> tuple[Fact, ...]:
    """Every bound node type, every traversed edge type and its ends, in nested blocks too."""
    return sort_facts(_list_pattern_reads(pattern, catalog))


def _list_pattern_reads(pattern: Pattern, catalog: Catalog) -> Iterator[Fact]:
    for node in pattern.nodes:
        yield from (make_node_fact(type_name) for type_name in node.types)
    for edge in pattern.edges:
        for step in edge.steps:
            yield from list_edge_facts(catalog.edges[step.edge_type])
    for nested in (*pattern.negations, *pattern.optionals):
        yield from _list_pattern_reads(nested, catalog)
