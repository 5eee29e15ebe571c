"""What can be read of a variable: its properties, its identity, and hints when there is neither."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.catalog.catalog import Property
from omnigraph.language.cursor import suggest_closest
from omnigraph.language.query.query_ast import ANONYMOUS, PropertyRef
from omnigraph.language.source import Span
from omnigraph.plan.expressions import STRING, EntityId, PropertyValue
from omnigraph.plan.scope import (
    BindContext,
    Block,
    BrokenVariable,
    EdgeVariable,
    HopVariable,
    NodeVariable,
)
from omnigraph.types.property import PropertyType

ID = "id"

EntityVariable = NodeVariable | EdgeVariable


def make_entity_id(variable: EntityVariable) -> EntityId:
    return EntityId(variable.name, STRING.optional() if variable.nullable else STRING)


def make_property_value(variable: EntityVariable, name: str, type_: PropertyType) -> PropertyValue:
    return PropertyValue(variable.name, name, type_.optional() if variable.nullable else type_)


def resolve_property(ref: PropertyRef, block: Block) -> PropertyValue | EntityId | None:
    """The value `$x.p` means, or None after reporting why it means nothing."""
    context = block.context
    variable = block.find(ref.variable)
    match variable:
        case NodeVariable() | EdgeVariable():
            return _find_property(variable, ref, context)
        case HopVariable():
            message = f"${ref.variable} counts hops and has no properties"
            context.report("T27", message, ref.span)
        case BrokenVariable():
            pass
        case None if ref.variable in context.parameters:
            message = f"${ref.variable} is a parameter and has no properties"
            context.report("T6", message, ref.span)
        case None:
            name_span = Span(ref.span.start, ref.span.start + 1 + len(ref.variable))
            report_unbound(ref.variable, name_span, block)
    return None


def _find_property(
    variable: EntityVariable, ref: PropertyRef, context: BindContext
) -> PropertyValue | EntityId | None:
    if ref.property == ID:
        return make_entity_id(variable)
    found = find_property(variable, ref.property, context)
    if found is None:
        message = f"{variable.describe()} has no property '{ref.property}'"
        hint = hint_property(variable, ref.property, context)
        context.report("T6", message, ref.property_span, hint=hint)
        return None
    return make_property_value(variable, ref.property, found)


def list_properties(variable: EntityVariable, context: BindContext) -> tuple[Property, ...]:
    """The properties every node or edge of the variable has, in name order.

    Under an interface these are the interface's, whatever its implementers have in common.
    """
    if isinstance(variable, NodeVariable):
        if variable.interface is not None:
            interface = context.catalog.interfaces[variable.interface]
            return tuple(sorted(interface.properties, key=lambda p: p.name))
        return context.catalog.nodes[variable.types[0]].properties
    first, *others = variable.edges
    return tuple(
        p for p in first.properties if all(_are_same(p, e.property(p.name)) for e in others)
    )


def _are_same(one: Property, other: Property | None) -> bool:
    return other is not None and one.type.optional() == other.type.optional()


def find_property(variable: EntityVariable, name: str, context: BindContext) -> PropertyType | None:
    """The type of a property that every node or edge of the variable has."""
    found = next((p.type for p in list_properties(variable, context) if p.name == name), None)
    if found is None or isinstance(variable, NodeVariable):
        return found
    same_named = [edge.property(name) for edge in variable.edges]
    return found.optional() if any(p is not None and p.type.nullable for p in same_named) else found


def hint_property(variable: EntityVariable, name: str, context: BindContext) -> str | None:
    """What to write instead of a property that is not there."""
    if isinstance(variable, EdgeVariable):
        some = [e.name for e in variable.edges if e.property(name) is not None]
        if some:
            return f"every edge of the traversal must have it with one type; {some[0]} has it"
    elif variable.interface is not None:
        having = [t for t in variable.types if context.catalog.nodes[t].property(name)]
        if having:
            return f"bind the variable to {' or '.join(having)} to use '{name}'"
    return suggest_closest(name, [p.name for p in list_properties(variable, context)])


def report_unbound(name: str, span: Span, block: Block) -> None:
    if name == ANONYMOUS:
        block.context.report("T6", "$_ is never bound", span, hint="give the variable a name")
        return
    known = [*block.visible_names(), *block.context.parameters]
    hint = suggest_variable(name, known)
    block.context.report("T6", f"variable ${name} is not bound", span, hint=hint)


def suggest_variable(name: str, known: Iterable[str]) -> str | None:
    """A hint naming the variable most like `$name`, if one is close."""
    return suggest_closest(f"${name}", [f"${word}" for word in known])
