"""Variables of a query while it is being bound, block by block, and the properties they offer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from omnigraph.catalog.catalog import Catalog, EdgeType, Property
from omnigraph.language.lexer import suggest_closest
from omnigraph.language.query_ast import (
    ANONYMOUS,
    Binding,
    Clause,
    Filter,
    Negation,
    Optional,
    PropertyMatch,
    PropertyRef,
    Traversal,
)
from omnigraph.language.source import Problems, Span
from omnigraph.plan.expressions import STRING, EntityId, Predicate, PropertyValue
from omnigraph.plan.plan_nodes import Pattern, PatternEdge, PatternNode
from omnigraph.types.property import PropertyType


@dataclass(slots=True)
class NodeVariable:
    """A node variable while its block is bound: its types narrow and its filters accumulate.

    `name` is its name in the plan; `nullable` tells that the optional block that introduced it has
    ended, so that it may be missing from here on.
    """

    name: str
    types: tuple[str, ...]
    interface: str | None = None
    declared: bool = False
    nullable: bool = False
    anonymous: bool = False
    filters: list[Predicate] = field(default_factory=list)

    def describe(self) -> str:
        return self.interface or " or ".join(self.types)


@dataclass(slots=True)
class EdgeVariable:
    """A variable bound to edges."""

    name: str
    edges: tuple[EdgeType, ...]
    nullable: bool = False

    def describe(self) -> str:
        return " or ".join(edge.name for edge in self.edges)


@dataclass(slots=True)
class HopVariable:
    """A variable bound to the length of a path."""

    name: str
    nullable: bool = False


@dataclass(slots=True)
class BrokenVariable:
    """A variable whose clause has an error; its uses are not checked."""

    name: str
    nullable: bool = False


Variable = NodeVariable | EdgeVariable | HopVariable | BrokenVariable


@dataclass
class BindContext:
    """Context of binding one query: schema, parameters, errors, fresh names."""

    catalog: Catalog
    problems: Problems
    parameters: Mapping[str, PropertyType]
    taken: frozenset[str] = frozenset()
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def report(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        self.problems.add(code, f"{code}: {message}", span, hint=hint)

    def fresh(self) -> str:
        """A name that the query does not use."""
        return next(name for n in self._numbers if (name := f"_{n}") not in self.taken)

    def locate(self, word: str, within: Span) -> Span:
        """Return the span of `word` inside another span, or that span.

        The tree has no span for every name, to keep clauses small; an error still refers to the
        name itself.
        """
        pattern = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])")
        found = pattern.search(self.problems.source.text, within.start, within.end)
        return Span(*found.span()) if found else within


@dataclass
class Block:
    """One brace block being bound.

    `bound` holds the names bound by this block and those around it, possibly later in the text;
    `reserved` those of them that denote another variable: one introduced here under such a name
    gets a fresh name in the plan.
    """

    context: BindContext
    parent: Block | None = None
    bound: frozenset[str] = frozenset()
    reserved: frozenset[str] = frozenset()
    variables: dict[str, Variable] = field(default_factory=dict)
    edges: list[PatternEdge] = field(default_factory=list)
    filters: list[Predicate] = field(default_factory=list)
    negations: list[Pattern] = field(default_factory=list)
    optionals: list[Pattern] = field(default_factory=list)
    outer: set[str] = field(default_factory=set)
    _nodes: list[NodeVariable] = field(default_factory=list)

    def find(self, name: str) -> Variable | None:
        """Resolve the variable `$name`; one from outside is noted in `outer`."""
        found = self.variables.get(name)
        if found is None and self.parent is not None:
            found = self.parent.find(name)
            if found is not None:
                self.outer.add(found.name)
        return found

    def owns(self, name: str) -> bool:
        return name in self.variables

    @property
    def has_nodes(self) -> bool:
        return bool(self._nodes)

    def visible_names(self) -> list[str]:
        around = self.parent.visible_names() if self.parent is not None else []
        return [*around, *self.variables]

    def plan_name(self, name: str) -> str:
        return self.context.fresh() if name in self.reserved else name

    def introduce_node(
        self, name: str, types: tuple[str, ...], *, interface: str | None, declared: bool
    ) -> NodeVariable:
        variable = NodeVariable(self.plan_name(name), types, interface, declared)
        self.variables[name] = variable
        self._nodes.append(variable)
        return variable

    def declare(self, variable: NodeVariable) -> None:
        """Note that a binding names the variable; the first one named starts its part."""
        if not variable.declared:
            variable.declared = True
            self._nodes.remove(variable)
            self._nodes.append(variable)

    def introduce_anonymous(self, type_name: str) -> NodeVariable:
        variable = NodeVariable(self.context.fresh(), (type_name,), anonymous=True)
        self._nodes.append(variable)
        return variable

    def mark_broken(self, name: str) -> None:
        """Record a name whose clause failed, unless it is bound."""
        if name != ANONYMOUS and self.find(name) is None:
            self.variables[name] = BrokenVariable(name)

    def adopt_optional(self, inner: Block) -> None:
        """Take over the variables of an optional block that has ended: they may be missing."""
        for variable in inner.variables.values():
            variable.nullable = True
        self.variables.update(inner.variables)
        self.optionals.append(inner.pattern())

    def pattern(self) -> Pattern:
        return Pattern(
            nodes=tuple(
                PatternNode(v.name, v.types, v.interface, v.declared, tuple(v.filters))
                for v in self._nodes
            ),
            edges=tuple(self.edges),
            filters=tuple(self.filters),
            negations=tuple(self.negations),
            optionals=tuple(self.optionals),
            outer=tuple(sorted(self.outer)),
        )


def list_bound_names(clauses: Iterable[Clause], *, deep: bool = False) -> frozenset[str]:
    """The names that these clauses can bind; `deep` adds those of negations."""
    names: set[str] = set()
    for clause in clauses:
        match clause:
            case Binding():
                names.add(clause.variable)
            case Traversal():
                names.update((clause.source, clause.target))
                names.update(filter(None, (clause.edge_variable, clause.hop_variable)))
            case Optional():
                names |= list_bound_names(clause.clauses, deep=deep)
            case Negation():
                names |= list_bound_names(clause.clauses, deep=deep) if deep else frozenset()
            case Filter():
                pass
    return frozenset(names - {ANONYMOUS})


ID = "id"

EntityVariable = NodeVariable | EdgeVariable


def make_entity_id(variable: EntityVariable) -> EntityId:
    return EntityId(variable.name, STRING.optional() if variable.nullable else STRING)


def make_property_value(variable: EntityVariable, name: str, type_: PropertyType) -> PropertyValue:
    return PropertyValue(variable.name, name, type_.optional() if variable.nullable else type_)


def resolve_property(ref: PropertyRef, block: Block) -> PropertyValue | EntityId | None:
    """Resolve `$x.p` to an operand, or None after reporting a mistake."""
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
    """List the properties of every node or edge of the variable, by name.

    Of an interface, these are its own properties, not others that its implementers share.
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
    """Suggest a replacement for a property that does not exist."""
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


def find_name_span(match: PropertyMatch) -> Span:
    """The span of the property name in a property match."""
    return Span(match.span.start, match.span.start + len(match.name))
