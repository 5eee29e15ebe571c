"""Typed scalar expressions and predicates, with resolved names."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.language.query_ast import AggregateName
from omnigraph.types.property import PropertyType, Scalar

ConstantValue = (
    str
    | int
    | float
    | bool
    | datetime.date
    | datetime.datetime
    | tuple["ConstantValue", ...]
    | None
)

STRING = PropertyType(Scalar.STRING)
BOOL = PropertyType(Scalar.BOOL)
I64 = PropertyType(Scalar.I64)
F64 = PropertyType(Scalar.F64)
DATETIME = PropertyType(Scalar.DATETIME)
SCORE = PropertyType(Scalar.F64, nullable=True)


@dataclass(frozen=True, slots=True)
class ObjectType:
    """The type of an object projection: its fields, in order."""

    fields: tuple[tuple[str, PropertyType], ...]
    nullable: bool = False

    def __str__(self) -> str:
        inside = ", ".join(f"{name}: {type_}" for name, type_ in self.fields)
        return "{" + inside + "}"


ValueType = PropertyType | ObjectType


# --- values -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal, already converted: dates are dates, lists and vectors are tuples."""

    value: ConstantValue
    type: PropertyType


@dataclass(frozen=True, slots=True)
class ParameterValue:
    """The value of a parameter of an execution."""

    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class NowValue:
    """The current time of the execution."""

    type: PropertyType = DATETIME


@dataclass(frozen=True, slots=True)
class PropertyValue:
    """A property of a bound node or edge; nullable when its variable may be missing."""

    variable: str
    property: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class EntityId:
    """The identity of a bound node or edge."""

    variable: str
    type: PropertyType = STRING


@dataclass(frozen=True, slots=True)
class TypeNameValue:
    """The declared type of a bound node: varies row by row under an interface binding."""

    variable: str
    type: PropertyType = STRING


@dataclass(frozen=True, slots=True)
class HopCount:
    """The number of edges on the shortest path of a bounded traversal."""

    variable: str
    type: PropertyType = I64


# --- ranking and text ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorDistance:
    """`nearest($x.v, q)`: Euclidean distance, smaller is better; NULL where there is no vector.

    A String query is embedded first, with the `model` of the schema if there is one.
    """

    variable: str
    property: str
    query: Operand
    dimension: int
    embed: bool = False
    model: str | None = None
    type: PropertyType = SCORE


@dataclass(frozen=True, slots=True)
class TextScore:
    """`bm25($x.p, q)`: larger is better; NULL where no term matches."""

    variable: str
    property: str
    query: Operand
    type: PropertyType = SCORE


@dataclass(frozen=True, slots=True)
class FusedScore:
    """`rrf(a, b, k)`: reciprocal-rank fusion of two rankings of one variable."""

    first: VectorDistance | TextScore
    second: VectorDistance | TextScore
    constant: Operand
    type: PropertyType = SCORE

    @property
    def variable(self) -> str:
        return self.first.variable


Ranking = VectorDistance | TextScore | FusedScore


class TextMode(StrEnum):
    ANY_TERM = "search"
    PHRASE = "match_text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """A full-text condition; `distance` belongs to FUZZY. Also a Bool value in `return`."""

    mode: TextMode
    variable: str
    property: str
    query: Operand
    distance: Operand | None = None
    type: PropertyType = BOOL


# --- values of `return` only ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AggregateValue:
    """An aggregate over the rows of a group; `argument` is an id when rows are counted."""

    function: AggregateName
    argument: Operand
    distinct: bool
    type: PropertyType


@dataclass(frozen=True, slots=True)
class ObjectValue:
    """`$x { … }`: an object of the named fields, NULL when the variable is missing."""

    variable: str
    fields: tuple[tuple[str, PropertyValue | EntityId | TypeNameValue], ...]
    type: ObjectType


@dataclass(frozen=True, slots=True)
class OutputValue:
    """A column of the return clause, by name: the target of ordering by an alias."""

    column: str
    type: ValueType


Operand = (
    Constant
    | ParameterValue
    | NowValue
    | PropertyValue
    | EntityId
    | TypeNameValue
    | HopCount
    | VectorDistance
    | TextScore
    | FusedScore
    | TextMatch
    | OutputValue
)
Output = Operand | AggregateValue | ObjectValue


# --- predicates ---------------------------------------------------------------------------------


class Comparator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    HAS = "has"
    """List membership: the left side is the list."""
    CONTAINS = "contains"
    """Substring."""
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"


@dataclass(frozen=True, slots=True)
class Compare:
    """Unknown (neither true nor false) when either side is NULL."""

    left: Operand
    op: Comparator
    right: Operand


@dataclass(frozen=True, slots=True)
class InList:
    """`value in items`; `items` is a list constant or a list parameter. Unknown on NULL value."""

    value: Operand
    items: Constant | ParameterValue


@dataclass(frozen=True, slots=True)
class IsNull:
    """True if an operand is NULL."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class AllOf:
    """Conjunction of predicates."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Disjunction of predicates."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class NotP:
    """Three-valued negation: that of unknown is unknown, which keeps no row."""

    item: Predicate


Predicate = Compare | InList | IsNull | TextMatch | AllOf | AnyOf | NotP
