"""Bind the clauses of a `match` to a pattern, in the order they are written.

Inline property matches, `$x: Type { name: value }`, become equality, or membership on a list.
"""

from __future__ import annotations

from typing import assert_never

from omnigraph.language.lexer import suggest_closest
from omnigraph.language.query_ast import (
    ANONYMOUS,
    Binding,
    Clause,
    Expression,
    Filter,
    ListLiteral,
    Literal,
    LiteralKind,
    Negation,
    NowCall,
    Optional,
    PropertyMatch,
    Traversal,
    VariableRef,
)
from omnigraph.language.source import Span
from omnigraph.plan.bind_conditions import bind_condition
from omnigraph.plan.bind_expressions import MatchNames, bind_literal, bind_parameter
from omnigraph.plan.bind_traversal import bind_traversal, narrow_types, report_taken
from omnigraph.plan.expressions import (
    STRING,
    Comparator,
    Compare,
    Constant,
    IsNull,
    NotP,
    NowValue,
    ParameterValue,
    Predicate,
)
from omnigraph.plan.literals import check_enum, describe_literal, round_constant
from omnigraph.plan.scope import (
    ID,
    BindContext,
    Block,
    BrokenVariable,
    EdgeVariable,
    HopVariable,
    NodeVariable,
    find_name_span,
    find_property,
    hint_property,
    list_bound_names,
    make_entity_id,
    make_property_value,
    suggest_variable,
)
from omnigraph.plan.walk import list_conjuncts, list_fused_scores, list_operands_of
from omnigraph.types.property import PropertyType, are_comparable

Value = Constant | ParameterValue | NowValue


def bind_property_match(match: PropertyMatch, node: NodeVariable, block: Block) -> Predicate | None:
    """Return the node of the match, or None after reporting a mistake."""
    context = block.context
    if match.name == ID:
        value = _bind_matched_value(match, STRING, context)
        return None if value is None else Compare(make_entity_id(node), Comparator.EQ, value)
    type_ = find_property(node, match.name, context)
    if type_ is None:
        message = f"{node.describe()} has no property '{match.name}'"
        hint = hint_property(node, match.name, context)
        context.report("T2", message, find_name_span(match), hint=hint)
        return None
    if type_.is_blob or type_.is_vector:
        message = f"'{match.name}' is {type_} and cannot be matched by value"
        context.report("T3", message, match.value.span)
        return None
    element = type_.element() if type_.is_list else type_
    value = _bind_matched_value(match, element, context)
    if value is None:
        return None
    op = Comparator.HAS if type_.is_list else Comparator.EQ
    return Compare(make_property_value(node, match.name, type_), op, round_constant(value, element))


def _bind_matched_value(
    match: PropertyMatch, type_: PropertyType, context: BindContext
) -> Value | None:
    """The value, if it can be compared with one of type `type_`."""
    value = bind_value(match.value, context)
    if value is None:
        return None
    target, span = f"'{match.name}'", match.value.span
    if isinstance(match.value, Literal) and match.value.kind is LiteralKind.NULL:
        message = f"null never matches {target}"
        hint = f"write a filter: `$x.{match.name} is null`"
        context.report("T3", message, span, hint=hint)
        return None
    if not are_comparable(type_, value.type):
        _report_mismatch(match.value, value, type_, target, context)
        return None
    if isinstance(value, Constant) and type_.enum_values is not None:
        member = check_enum(
            str(value.value),
            type_.enum_values,
            target,
            lambda message: context.report("T3", message, span),
        )
        return None if member is None else value
    return value


def _report_mismatch(
    expression: Expression, value: Value, type_: PropertyType, target: str, context: BindContext
) -> None:
    if isinstance(expression, Literal | ListLiteral):
        shown = describe_literal(expression)
        message = f"{target} is compared with {type_.display(nullable=False)}, not with {shown}"
        context.report("T3", message, expression.span)
        return
    message = f"{target} is {type_} and cannot be matched with a value of type {value.type}"
    context.report("T7", message, expression.span)


def bind_value(expression: Expression, context: BindContext) -> Value | None:
    """Bind a literal, a parameter or `now()`; other expressions are rejected."""
    match expression:
        case Literal() | ListLiteral():
            return bind_literal(expression, context)
        case NowCall():
            return NowValue()
        case VariableRef():
            parameter = bind_parameter(expression, context)
            if parameter is not None:
                return parameter
            message = f"${expression.name} must be a declared query parameter"
            hint = suggest_variable(expression.name, context.parameters)
            context.report("T14", message, expression.span, hint=hint)
        case _:
            message = "the value must be a literal, a declared query parameter or now()"
            context.report("T14", message, expression.span)
    return None


def bind_clauses(clauses: tuple[Clause, ...], block: Block) -> None:
    """Add every clause to the block."""
    for clause in clauses:
        match clause:
            case Binding():
                _bind_binding(clause, block)
            case Traversal():
                bind_traversal(clause, block)
            case Filter():
                _bind_filter(clause, block)
            case Negation():
                _bind_negation(clause, block)
            case Optional():
                _bind_optional(clause, block)
            case _:
                assert_never(clause)


def _bind_filter(clause: Filter, block: Block) -> None:
    predicate = bind_condition(clause.condition, MatchNames(block))
    if predicate is None:
        return
    if list_fused_scores(list_operands_of(predicate)):
        message = "rrf() ranks what the match has found, so no condition of the match can use it"
        block.context.report("T21", message, clause.span, hint="return it, or order by it")
        return
    block.filters.extend(list_conjuncts(predicate))


# --- nested blocks ----------------------------------------------------------------------------


def _bind_negation(clause: Negation, block: Block) -> None:
    bound = block.bound | list_bound_names(clause.clauses)
    inner = Block(block.context, block, bound, reserved=block.bound)
    bind_clauses(clause.clauses, inner)
    if inner.outer:
        block.negations.append(inner.pattern())
        return
    message = "the negation uses no variable from outside, so it keeps all rows or none"
    block.context.report("T9", message, _bind_head(clause.span, "not"))


def _bind_optional(clause: Optional, block: Block) -> None:
    inner = Block(block.context, block, block.bound, block.reserved)
    bind_clauses(clause.clauses, inner)
    if not inner.outer:
        message = "the optional block uses no variable from outside"
        hint = "start from a variable that is bound before it"
        block.context.report("T25", message, _bind_head(clause.span, "optional"), hint=hint)
    block.adopt_optional(inner)


def _bind_head(span: Span, word: str) -> Span:
    """Return the span of the first word of a block."""
    return Span(span.start, span.start + len(word))


# --- bindings ---------------------------------------------------------------------------------

Range = tuple[tuple[str, ...], str | None]
"""The node types a binding ranges over, and the interface it names, if it names one."""


def _bind_binding(clause: Binding, block: Block) -> None:
    bound = _bind_range(clause, block)
    node = None if bound is None else _bind_node(clause, bound, block)
    if node is None:
        block.mark_broken(clause.variable)
        return
    filters = [bind_property_match(match, node, block) for match in clause.matches]
    found = [predicate for predicate in filters if predicate is not None]
    if block.owns(clause.variable):
        node.filters.extend(found)
    else:
        block.filters.extend(found)


def _bind_range(clause: Binding, block: Block) -> Range | None:
    catalog, name = block.context.catalog, clause.type_name
    if name in catalog.nodes:
        return (name,), None
    if name in catalog.interfaces:
        types = tuple(sorted(node.name for node in catalog.implementers(name)))
        if types:
            return types, name
        message = f"no node type implements interface '{name}'"
        block.context.report("T1", message, clause.type_span)
        return None
    hint = suggest_closest(name, [*catalog.nodes, *catalog.interfaces])
    edge = catalog.find_edge(name)
    if edge is not None:
        word = edge.name[0].lower() + edge.name[1:]
        hint = f"'{edge.name}' is an edge type; follow it with `$a {word} $b`"
    block.context.report("T1", f"unknown node type '{name}'", clause.type_span, hint=hint)
    return None


def _bind_node(clause: Binding, bound: Range, block: Block) -> NodeVariable | None:
    """The variable of a binding: a new one, or one bound to a node already."""
    name, (types, interface) = clause.variable, bound
    span = Span(clause.span.start, clause.span.start + 1 + len(name))
    context = block.context
    if name == ANONYMOUS:
        hint = "give the variable a name"
        context.report("T33", "$_ stands for an end of a traversal only", span, hint=hint)
        return None
    if name in context.parameters:
        report_taken(name, span, block)
        return None
    match block.find(name):
        case None:
            return block.introduce_node(name, types, interface=interface, declared=True)
        case NodeVariable() as node:
            return _bind_again(clause, node, bound, span, block)
        case EdgeVariable():
            context.report("T23", f"${name} is an edge variable and cannot be a node too", span)
        case HopVariable():
            context.report("T27", f"${name} counts hops and cannot be a node too", span)
        case BrokenVariable():
            pass
    return None


def _bind_again(
    clause: Binding, node: NodeVariable, bound: Range, span: Span, block: Block
) -> NodeVariable | None:
    """Restrict a variable to the types that both its bindings allow."""
    name, (types, interface) = clause.variable, bound
    own = block.owns(name)
    if own and node.nullable:
        message = f"${name} comes from an optional block and cannot be bound outside it"
        hint = "move the binding into the optional block"
        block.context.report("T25", message, span, hint=hint)
        return None
    common = tuple(t for t in node.types if t in types)
    two_interfaces = own and interface and node.interface and interface != node.interface
    if not common or two_interfaces:
        message = f"${name} is already bound to type {node.describe()}"
        block.context.report("T33", message, clause.type_span)
        return None
    if node.nullable:
        block.filters.append(NotP(IsNull(make_entity_id(node))))
    if common != node.types:
        narrow_types(name, node, common, block)
    if own:
        _rename_view(node, interface, block)
    return node


def _rename_view(node: NodeVariable, interface: str | None, block: Block) -> None:
    """A node type, once named, shows all its properties; an interface only its own."""
    if interface is None:
        node.interface = None
    elif not node.declared:
        node.interface = interface
    block.declare(node)
