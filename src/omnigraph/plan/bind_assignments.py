"""Assignments of a mutation: every value typed as its column, nothing required left out."""

from __future__ import annotations

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.language.cursor import suggest_closest
from omnigraph.language.query.query_ast import Insert, ListLiteral, Literal, PropertyMatch, Update
from omnigraph.plan.bind_inline import bind_value, find_name_span
from omnigraph.plan.bind_properties import ID
from omnigraph.plan.bind_where import ENDS, list_column_words
from omnigraph.plan.expressions import STRING, Operand
from omnigraph.plan.literals import fit_literal
from omnigraph.plan.nodes import Assignment
from omnigraph.plan.scope import BindContext
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
    """Whether something required is left out; a merge may rely on what is stored."""
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
    """Whether a value known only at run time may fit; NULL and ranges are checked then."""
    if column.is_blob:
        return value.is_string or (value.is_blob and not value.is_list)
    return value.scalar is not Scalar.BLOB and are_comparable(column, value)
