"""The syntax tree of a query file, as written: names are not resolved and types not checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.language.source import Span, declare_span
from omnigraph.types.property import PropertyType

ANONYMOUS = "_"
"""The name of `$_`, an endpoint that is not used."""


# --- expressions --------------------------------------------------------------------------------


class LiteralKind(StrEnum):
    STRING = "string"
    INTEGER = "integer"
    FLOAT = "float"
    BOOL = "bool"
    NULL = "null"
    DATE = "date"
    DATETIME = "datetime"


@dataclass(frozen=True, slots=True)
class Literal:
    """One literal; `value` is a str for strings, dates and datetimes, else the Python value."""

    kind: LiteralKind
    value: str | int | float | bool | None
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[1, 2]`."""

    items: tuple[Literal, ...]
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class VariableRef:
    """`$x`: a bound node, a hop count or a parameter; the binder decides."""

    name: str
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class PropertyRef:
    """`$x.p`; `$x.id` is the identity of the entity."""

    variable: str
    property: str
    span: Span = declare_span()
    property_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class AliasRef:
    """A bare name: a column of the return clause, or a property in a mutation's `where`."""

    name: str
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class NowCall:
    """`now()`."""

    span: Span = declare_span()


class FunctionName(StrEnum):
    NEAREST = "nearest"
    SEARCH = "search"
    FUZZY = "fuzzy"
    MATCH_TEXT = "match_text"
    BM25 = "bm25"
    RRF = "rrf"
    TYPE = "type"


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """`lower($p.name)`."""

    function: FunctionName
    arguments: tuple[Expression, ...]
    span: Span = declare_span()


class AggregateName(StrEnum):
    COUNT = "count"
    SUM = "sum"
    SUM_INT = "sum_int"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    COLLECT = "collect"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """`count(distinct $p)`."""

    function: AggregateName
    argument: Expression
    distinct: bool = False
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class ObjectProjection:
    """`$x { * }` (`properties` is None) or `$x { name, born }`; only in `return`."""

    variable: str
    properties: tuple[str, ...] | None
    span: Span = declare_span()


Expression = (
    Literal
    | ListLiteral
    | VariableRef
    | PropertyRef
    | AliasRef
    | NowCall
    | FunctionCall
    | AggregateCall
    | ObjectProjection
)


# --- conditions ---------------------------------------------------------------------------------


class CompareOp(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"


@dataclass(frozen=True, slots=True)
class Comparison:
    """`$p.age > 30`."""

    left: Expression
    op: CompareOp
    right: Expression
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Membership:
    """`left in right`, `left not in right`; the right side is a list literal or a parameter."""

    left: Expression
    right: Expression
    negated: bool = False
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class NullTest:
    """`operand is null`, `operand is not null`."""

    operand: Expression
    negated: bool = False
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Truth:
    """An expression used as a condition, such as `search($d.text, "tides")`."""

    operand: Expression
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction of conditions."""

    items: tuple[Condition, ...]
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction of conditions."""

    items: tuple[Condition, ...]
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Not:
    """Negation of a condition."""

    item: Condition
    span: Span = declare_span()


Condition = Comparison | Membership | NullTest | Truth | And | Or | Not


# --- match clauses ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PropertyMatch:
    """`name: value` inside a binding or an assignment list."""

    name: str
    value: Expression
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Binding:
    """`$x: Type { p: v, … }`; the type is a node type or an interface."""

    variable: str
    type_name: str
    matches: tuple[PropertyMatch, ...] = ()
    span: Span = declare_span()
    type_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class HopBounds:
    """`{min,max}`; `{1,}` has no maximum and is refused by the binder."""

    minimum: int
    maximum: int | None
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$a [$w:]edge[|edge…] [{m,n}] $b [hops $h]`, or with `<edge>` undirected."""

    source: str
    edges: tuple[str, ...]
    target: str
    undirected: bool = False
    hops: HopBounds | None = None
    edge_variable: str | None = None
    hop_variable: str | None = None
    span: Span = declare_span()
    edge_span: Span = declare_span()
    source_span: Span = declare_span()
    target_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition among the clauses of a pattern."""

    condition: Condition
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Negation:
    """`not { … }`: clauses that must have no match."""

    clauses: tuple[Clause, ...]
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Optional:
    """`optional { … }`: clauses that may have no match."""

    clauses: tuple[Clause, ...]
    span: Span = declare_span()


Clause = Binding | Traversal | Filter | Negation | Optional


# --- bodies -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Projection:
    """One column of the result: `$p.name as who`."""

    expression: Expression
    alias: str | None = None
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Ordering:
    """One ordering key; `descending` is None when no direction is written."""

    expression: Expression
    descending: bool | None = None
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class ReadBody:
    """The body of a query that reads."""

    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    distinct: bool = False
    order: tuple[Ordering, ...] = ()
    limit: Expression | None = None
    offset: Expression | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """`insert T { … }`, or `merge T { … }` which keeps unnamed properties."""

    type_name: str
    assignments: tuple[PropertyMatch, ...]
    partial: bool = False
    span: Span = declare_span()
    type_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Update:
    """`update Person set { … } where …`."""

    type_name: str
    assignments: tuple[PropertyMatch, ...]
    where: Condition
    span: Span = declare_span()
    type_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Delete:
    """`delete Person where …`."""

    type_name: str
    where: Condition
    span: Span = declare_span()
    type_span: Span = declare_span()


Statement = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class MutationBody:
    """The statements of a query that writes."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name: String`."""

    name: str
    type: PropertyType
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class QueryDecl:
    """One query of a file."""

    name: str
    parameters: tuple[Parameter, ...]
    body: ReadBody | MutationBody
    description: str | None = None
    instruction: str | None = None
    span: Span = declare_span()
    name_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class QueryFile:
    """A query text."""

    queries: tuple[QueryDecl, ...]
