"""Plan nodes: frozen values that together define the meaning of a query.

A read plan starts as a `Match` over an unordered pattern with a tail of projection, ordering and
slicing. The rewrite rules place filters, choose an order (turning the pattern into scans and
expansions) and prune columns; an executor only meets the nodes after `Match`.

A row set is a wide table: one id per bound variable, plus the properties each node requires.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.plan.expressions import (
    AggregateValue,
    Constant,
    Operand,
    Output,
    ParameterValue,
    Predicate,
    Ranking,
    ValueType,
)
from omnigraph.types.property import PropertyType


class Direction(StrEnum):
    OUT = "out"
    IN = "in"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class EdgeStep:
    """One edge type of a traversal, and its direction as seen from the source variable."""

    edge_type: str
    direction: Direction


# --- the pattern, before an order is chosen -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatternNode:
    """A node variable: its types, and the predicates on it alone.

    `declared` is true if a binding names it, false for an endpoint of traversals only.
    `interface` is the interface of the binding, if any.
    """

    variable: str
    types: tuple[str, ...]
    interface: str | None = None
    declared: bool = True
    filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class PatternEdge:
    """A traversal between two node variables.

    Anonymous endpoints have fresh variables of their own. `minimum..maximum` bounds the shortest
    distance; an `edge_variable` keeps parallel edges apart and allows only one hop.
    `edge_filters` use the edge variable only.
    """

    source: str
    target: str
    steps: tuple[EdgeStep, ...]
    minimum: int = 1
    maximum: int = 1
    edge_variable: str | None = None
    hop_variable: str | None = None
    edge_filters: tuple[Predicate, ...] = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """An unordered conjunction. `outer` lists the variables bound around it."""

    nodes: tuple[PatternNode, ...]
    edges: tuple[PatternEdge, ...] = ()
    filters: tuple[Predicate, ...] = ()
    negations: tuple[Pattern, ...] = ()
    optionals: tuple[Pattern, ...] = ()
    outer: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """The rows of a pattern; `order_clauses` turns it into the nodes below."""

    pattern: Pattern


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OuterRows:
    """Inside a negation or an optional part: the rows of the plan around it."""

    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeScan:
    """All nodes of the given types that pass `filters`, bound to `variable`."""

    variable: str
    types: tuple[str, ...]
    filters: tuple[Predicate, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CrossJoin:
    """Every row of one side with every row of the other."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Expand:
    """Neighbours of the `source` of each row, bound to `target`.

    With `closes` the target is bound already and the expansion only tests the path. With
    `asked_from_target` the query has the path from `target` to `source` and the plan reverses it:
    distances are the same, but a self loop then counts at `source`.
    """

    child: Node
    source: str
    target: str
    steps: tuple[EdgeStep, ...]
    minimum: int
    maximum: int
    target_types: tuple[str, ...]
    target_filters: tuple[Predicate, ...] = ()
    edge_variable: str | None = None
    edge_filters: tuple[Predicate, ...] = ()
    hop_variable: str | None = None
    closes: bool = False
    asked_from_target: bool = False
    target_columns: tuple[str, ...] = ()
    edge_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilterRows:
    """Rows for which a predicate is true."""

    child: Node
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class AntiJoin:
    """The rows of `child` for which `inner`, correlated on all their variables, has no row."""

    child: Node
    inner: Node


@dataclass(frozen=True, slots=True)
class OptionalJoin:
    """The rows of `child`, each with its matches in `inner`, or once with NULLs when none."""

    child: Node
    inner: Node
    introduces: tuple[str, ...]


# --- the tail -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SortKey:
    """NULL is smaller than every value: first ascending, last descending."""

    value: Operand
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Rank:
    """Keep the rows with a score in the ranking, best first; `keys` break ties.

    `keep` is the number of rows that can still matter (limit and offset together), set by the rule
    that fuses rankings; None keeps all.
    """

    child: Node
    ranking: Ranking
    keys: tuple[SortKey, ...]
    tie_break: tuple[str, ...]
    keep: tuple[Constant | ParameterValue, ...] | None = None


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of the result."""

    name: str
    value: Output
    type: ValueType


@dataclass(frozen=True, slots=True)
class Project:
    """The columns of the result, computed from the rows."""

    child: Node
    columns: tuple[OutputColumn, ...]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Group by the key columns, in no particular order; without keys there is exactly one row.

    `columns` is the output in projection order; those with an `AggregateValue` are computed, the
    others are the keys.
    """

    child: Node
    columns: tuple[OutputColumn, ...]

    @property
    def keys(self) -> tuple[OutputColumn, ...]:
        return tuple(c for c in self.columns if not isinstance(c.value, AggregateValue))


@dataclass(frozen=True, slots=True)
class Sort:
    """Order by `keys`, ties by the ids of `tie_break` variables, or by output columns.

    Its input is the variables below `Project`, except over an `Aggregate` or a distinct
    projection, where keys and ties are output columns.
    """

    child: Node
    keys: tuple[SortKey, ...]
    tie_break: tuple[str, ...] = ()
    tie_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """Some of the rows, counted from the start."""

    child: Node
    limit: Constant | ParameterValue | None = None
    offset: Constant | ParameterValue | None = None


Node = (
    Match
    | OuterRows
    | NodeScan
    | CrossJoin
    | Expand
    | FilterRows
    | AntiJoin
    | OptionalJoin
    | Rank
    | Project
    | Aggregate
    | Sort
    | Slice
)


# --- mutations ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assignment:
    """A value for a column (`src` and `dst` for an edge's ends), typed as the column is."""

    column: str
    value: Operand
    type: PropertyType


class InsertMode(StrEnum):
    STRICT = "strict"
    """The id is fresh: a node without key, or an edge."""
    REPLACE = "replace"
    """Upsert by key; unassigned properties become NULL or their default."""
    PARTIAL = "partial"
    """Upsert by key; unassigned properties of a stored entity are kept."""


@dataclass(frozen=True, slots=True)
class InsertEntity:
    """Write one node or edge."""

    table_key: str
    mode: InsertMode
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class UpdateEntities:
    """In predicates of a mutation the target row's variable is `ROW`."""

    table_key: str
    assignments: tuple[Assignment, ...]
    where: Predicate


@dataclass(frozen=True, slots=True)
class DeleteEntities:
    """`cascades` lists the edge tables that lose edges when nodes go: (table, column)."""

    table_key: str
    where: Predicate
    cascades: tuple[tuple[str, str], ...] = ()


MutationStatement = InsertEntity | UpdateEntities | DeleteEntities

ROW = "row"


# --- plans ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fact:
    """A type that an operation reads or writes."""

    kind: str
    type_name: str


@dataclass(frozen=True, slots=True)
class DeclaredParameter:
    """A parameter of a query."""

    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A query that reads, bound to a catalog."""

    name: str
    parameters: tuple[DeclaredParameter, ...]
    root: Node
    columns: tuple[OutputColumn, ...]
    reads: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class MutationPlan:
    """`touched` is every table the statements and their cascades can change."""

    name: str
    parameters: tuple[DeclaredParameter, ...]
    statements: tuple[MutationStatement, ...]
    reads: tuple[Fact, ...]
    writes: tuple[Fact, ...]
    touched: tuple[str, ...]


Plan = ReadPlan | MutationPlan
