"""Mutations: statements checked against the schema, their values typed, their effects known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.identity import EntityKind, make_table_key
from omnigraph.language.cursor import suggest_closest
from omnigraph.language.query.query_ast import (
    Delete,
    Insert,
    MutationBody,
    QueryDecl,
    Statement,
    Update,
)
from omnigraph.plan.bind_assignments import bind_assignments
from omnigraph.plan.bind_conditions import bind_condition
from omnigraph.plan.bind_where import RowNames
from omnigraph.plan.facts import list_edge_facts, make_fact, sort_facts
from omnigraph.plan.nodes import (
    DeclaredParameter,
    DeleteEntities,
    Fact,
    InsertEntity,
    InsertMode,
    MutationPlan,
    MutationStatement,
    UpdateEntities,
)
from omnigraph.plan.scope import BindContext


def bind_mutation(decl: QueryDecl, body: MutationBody, context: BindContext) -> MutationPlan:
    """The plan of a mutation; it is of no use when the context has mistakes afterwards."""
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
    """Deletes see the state before the query, writes see each other: together they see neither."""
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
    """The type a statement changes; a node type wins over an edge type of the same name."""
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
    """What must be read besides the target: the ends of a new edge have to exist."""
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
