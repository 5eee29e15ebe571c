"""The scope of a random query while it is being written: variables, parameters, its own limits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from random import Random

from differential.data import GraphData
from differential.random_contents import VALUES, make_value
from omnigraph.catalog.catalog import Catalog, Property
from omnigraph.language import query_ast
from omnigraph.types.property import FLOATS, INTEGERS, NUMBERS, PropertyType, Scalar


@dataclass
class Variable:
    """A variable: a node of some types, an edge of some, or a hop count."""

    name: str
    kind: str
    types: tuple[str, ...] = ()
    interface: str | None = None
    nullable: bool = False

    @property
    def ref(self) -> query_ast.VariableRef:
        return query_ast.VariableRef(self.name)


@dataclass
class Scope:
    """The variables a block sees; `own` are those it may bind further."""

    variables: list[Variable] = field(default_factory=list)
    own: list[Variable] = field(default_factory=list)

    def add(self, variable: Variable) -> Variable:
        self.variables.append(variable)
        self.own.append(variable)
        return variable

    def inner(self) -> Scope:
        return Scope(list(self.variables))

    def of(self, kind: str) -> list[Variable]:
        return [v for v in self.variables if v.kind == kind]


@dataclass
class Draft:
    """A query being written over one graph."""

    random: Random
    catalog: Catalog
    data: GraphData
    parameters: list[query_ast.Parameter] = field(default_factory=list)
    given: dict[str, object] = field(default_factory=dict)
    _names: int = 0

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def fresh(self, prefix: str) -> str:
        """An unused name; not in the order of creation, since order is by name."""
        self._names += 1
        return f"{self.random.choice('abcz')}{prefix}{self._names}"

    # --- properties -------------------------------------------------------------------------------

    def properties(self, variable: Variable) -> list[Property]:
        """Return the properties that can be read of a node or edge variable."""
        if variable.interface is not None:
            return list(self.catalog.interfaces[variable.interface].properties)
        entities = self.catalog.edges if variable.kind == "edge" else self.catalog.nodes
        first, *others = (entities[name] for name in variable.types)
        return [
            p
            for p in first.properties
            if all(
                (q := o.property(p.name)) and q.type.required() == p.type.required() for o in others
            )
        ]

    def property_of(self, variables: Iterable[Variable], *fits: object) -> tuple | None:
        """A random (variable, property) whose type passes every test."""
        found = [
            (variable, p)
            for variable in variables
            if variable.kind != "hops"
            for p in self.properties(variable)
            if all(fit(p.type) for fit in fits)  # type: ignore[operator]
        ]
        return self.random.choice(found) if found else None

    def stored_values(self, variable: Variable, name: str) -> list[object]:
        """The values a property has, without the missing ones."""
        found: list[object] = []
        for type_name in variable.types:
            if variable.kind == "edge":
                found += [edge.properties.get(name) for edge in self.data.edges[type_name]]
            else:
                found += [node.get(name) for node in self.data.nodes[type_name].values()]
        return [value for value in found if value is not None]

    # --- values -----------------------------------------------------------------------------------

    def value_for(self, variable: Variable, property_: Property) -> object:
        """A value to compare a property with: mostly an existing one."""
        found = self.stored_values(variable, property_.name)
        if property_.type.is_list:
            found = [item for value in found for item in value]  # type: ignore[attr-defined]
        if found and self.chance(0.85):
            return self.random.choice(found)
        if property_.type.is_list:
            return parsed(self.random.choice(VALUES[property_.type.scalar]))
        return parsed(make_value(property_.name, property_.type.required(), self.random))

    def operand(self, value: object, type_: PropertyType) -> query_ast.Expression:
        """A literal or a parameter for a value of a type; numbers now and then of another."""
        if self.chance(0.3):
            return self.parameter(value, type_)
        return literal(value, type_)

    def parameter(self, value: object, type_: PropertyType) -> query_ast.VariableRef:
        scalar = type_.scalar
        if scalar in NUMBERS and self.chance(0.4):
            scalar = self._wider(value, scalar)
        nullable = self.chance(0.2)
        declared = PropertyType(scalar, nullable)
        return self.declare(declared, None if nullable and self.chance(0.2) else json_of(value))

    def _wider(self, value: object, scalar: Scalar) -> Scalar:
        if scalar in INTEGERS:
            return Scalar.I64 if -(2**63) <= int(value) < 2**63 else Scalar.U64  # type: ignore[call-overload]
        return self.random.choice(sorted(FLOATS))

    def declare(self, type_: PropertyType, value: object) -> query_ast.VariableRef:
        name = f"p{len(self.parameters)}"
        self.parameters.append(query_ast.Parameter(name, type_))
        if value is not None or self.chance(0.5):
            self.given[name] = value
        return query_ast.VariableRef(name)


def parsed(value: object) -> object:
    """A date or moment instead of its text."""
    if isinstance(value, str) and value[4:5] == "-" and value[7:8] == "-":
        return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    return value


def json_of(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, date) else value


def literal(value: object, type_: PropertyType) -> query_ast.Literal:
    """The literal of a value; whole floats may do without a fraction."""
    kinds = query_ast.LiteralKind
    match value:
        case bool():
            return query_ast.Literal(kinds.BOOL, value)
        case int():
            return query_ast.Literal(kinds.INTEGER, value)
        case float():
            return query_ast.Literal(kinds.FLOAT, value)
        case datetime():
            return query_ast.Literal(kinds.DATETIME, str(json_of(value)))
        case date():
            return query_ast.Literal(kinds.DATE, value.isoformat())
        case str():
            return query_ast.Literal(kinds.STRING, value)
        case _:
            raise AssertionError(f"no literal for {value!r} of {type_}")
