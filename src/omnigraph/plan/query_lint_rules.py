"""Advice about queries that compile: what is legal and yet probably not meant."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from omnigraph.catalog.catalog import Catalog, ConstraintKind, NodeType
from omnigraph.errors import Severity
from omnigraph.identity import EntityKind, make_table_key
from omnigraph.language.lexer import TokenKind, tokenize
from omnigraph.language.query.query_ast import QueryDecl, ReadBody
from omnigraph.language.source import Problems, SourceText
from omnigraph.plan.descriptor import JsonObject
from omnigraph.plan.expressions import Output, TextScore, VectorDistance
from omnigraph.plan.nodes import (
    Aggregate,
    InsertEntity,
    InsertMode,
    Match,
    MutationPlan,
    Node,
    Pattern,
    Plan,
    Rank,
    ReadPlan,
    Sort,
    UpdateEntities,
)
from omnigraph.plan.walk import (
    list_children,
    list_leaves,
    list_operands_of,
    list_predicate_variables,
)


@dataclass(frozen=True, slots=True)
class QueryLintFinding:
    """What is questionable about a query."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

    def wire(self) -> JsonObject:
        body: JsonObject = {
            "severity": str(self.severity),
            "code": self.code,
            "message": self.message,
        }
        if self.type_name is not None:
            body["type_name"] = self.type_name
        if self.property is not None:
            body["property"] = self.property
        if self.query_names:
            body["query_names"] = list(self.query_names)
        return body

    def line(self) -> str:
        names = f" ({', '.join(self.query_names)})" if self.query_names else ""
        return f"{self.severity} {self.code}: {self.message}{names}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A query that compiles, as written and as planned."""

    decl: QueryDecl
    plan: Plan


def lint_checked(
    checked: Sequence[Checked], catalog: Catalog, source: SourceText
) -> Iterator[QueryLintFinding]:
    """Everything worth saying about the queries; the order does not matter."""
    yield from _find_never_updated(checked, catalog)
    yield from _find_named_once(checked, source)
    for query in checked:
        if isinstance(query.plan, ReadPlan) and isinstance(query.decl.body, ReadBody):
            yield from _find_multiplied(query.plan)
            yield from _find_unordered_limit(query.decl.body, query.plan)
    yield from _find_unindexed_rankings(checked, catalog)


# --- L201 -----------------------------------------------------------------------------------------


def _find_never_updated(checked: Iterable[Checked], catalog: Catalog) -> Iterator[QueryLintFinding]:
    updating: dict[str, set[str]] = defaultdict(set)
    assigned: dict[str, set[str]] = defaultdict(set)
    for query in checked:
        if not isinstance(query.plan, MutationPlan):
            continue
        for statement in query.plan.statements:
            if isinstance(statement, UpdateEntities):
                updating[statement.table_key].add(query.decl.name)
            elif not (isinstance(statement, InsertEntity) and statement.mode is InsertMode.PARTIAL):
                continue
            assigned[statement.table_key] |= {a.column for a in statement.assignments}
    for node in catalog.nodes.values():
        names = tuple(sorted(updating[node.table_key]))
        for name in _list_updatable(node) if names else ():
            if name not in assigned[node.table_key]:
                message = f"{node.name}.{name} exists in schema but no update query sets it"
                yield QueryLintFinding(Severity.WARNING, "L201", message, node.name, name, names)


def _list_updatable(node: NodeType) -> Iterator[str]:
    for property_ in node.properties:
        if property_.type.nullable and property_ not in node.key and property_.embed is None:
            yield property_.name


# --- L202, L203 -----------------------------------------------------------------------------------


def _find_named_once(checked: Iterable[Checked], source: SourceText) -> Iterator[QueryLintFinding]:
    """Names that occur only once in the text of a query: where they are introduced."""
    tokens = tokenize(source, Problems(source, "parse"))
    variables = [token for token in tokens if token.kind is TokenKind.VARIABLE]
    for query in checked:
        start, end = query.decl.span
        counts = Counter(t.value[1:] for t in variables if start <= t.span.start < end)
        parameters = {p.name for p in query.decl.parameters}
        for name, count in counts.items():
            if count > 1 or name == "_":
                continue
            names = (query.decl.name,)
            if name in parameters:
                message = f"parameter ${name} is never used"
                yield QueryLintFinding(Severity.WARNING, "L202", message, query_names=names)
            else:
                message = f"variable ${name} is never used; `$_` needs no name"
                yield QueryLintFinding(Severity.INFO, "L203", message, query_names=names)


# --- L204, L205 -----------------------------------------------------------------------------------


def _find_multiplied(plan: ReadPlan) -> Iterator[QueryLintFinding]:
    parts = group_connected(_find_pattern(plan.root))
    if len(parts) > 1:
        shown = " and ".join(", ".join(f"${name}" for name in sorted(part)) for part in parts)
        message = f"nothing connects {shown}: every combination is a row"
        yield QueryLintFinding(Severity.WARNING, "L204", message, query_names=(plan.name,))


def group_connected(pattern: Pattern) -> list[frozenset[str]]:
    """The variables of a pattern, grouped by what traversals, conditions and blocks connect."""
    links = [{edge.source, edge.target} for edge in pattern.edges]
    links += [set(list_predicate_variables(predicate)) for predicate in pattern.filters]
    links += [set(nested.outer) for nested in (*pattern.negations, *pattern.optionals)]
    parts = [{node.variable} for node in pattern.nodes]
    for link in links:
        touched = [part for part in parts if part & link]
        parts = [part for part in parts if not part & link]
        if touched:
            parts.append(set().union(*touched))
    return [frozenset(part) for part in parts]


def _find_unordered_limit(body: ReadBody, plan: ReadPlan) -> Iterator[QueryLintFinding]:
    one_row = any(isinstance(node, Aggregate) and not node.keys for node in _list_nodes(plan.root))
    if body.limit is not None and not body.order and not one_row:
        message = "`limit` without `order` keeps the first rows by identity"
        yield QueryLintFinding(Severity.INFO, "L205", message, query_names=(plan.name,))


# --- L206 -----------------------------------------------------------------------------------------


def _find_unindexed_rankings(
    checked: Iterable[Checked], catalog: Catalog
) -> Iterator[QueryLintFinding]:
    queries: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for query in checked:
        if not isinstance(query.plan, ReadPlan):
            continue
        types = _map_variable_types(_find_pattern(query.plan.root))
        for leaf in _list_leaves(query.plan):
            if isinstance(leaf, VectorDistance | TextScore):
                function = "nearest" if isinstance(leaf, VectorDistance) else "bm25"
                for type_name in types.get(leaf.variable, ()):
                    queries[type_name, leaf.property, function].add(query.decl.name)
    for (type_name, name, function), query_names in queries.items():
        if not _has_index(catalog, type_name, name):
            message = f"{type_name}.{name} is ranked by {function}() and declares no @index"
            found = tuple(sorted(query_names))
            yield QueryLintFinding(Severity.INFO, "L206", message, type_name, name, found)


def _has_index(catalog: Catalog, type_name: str, name: str) -> bool:
    node = catalog.by_table_key[make_table_key(EntityKind.NODE, type_name)]
    kinds = (ConstraintKind.INDEX, ConstraintKind.KEY)
    return any(c.kind in kinds and c.columns == (name,) for c in node.constraints)


# --- walking --------------------------------------------------------------------------------------


def _list_nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in list_children(node):
        yield from _list_nodes(child)


def _find_pattern(root: Node) -> Pattern:
    return next(node.pattern for node in _list_nodes(root) if isinstance(node, Match))


def _map_variable_types(pattern: Pattern) -> dict[str, tuple[str, ...]]:
    types = {node.variable: node.types for node in pattern.nodes}
    for nested in (*pattern.negations, *pattern.optionals):
        types |= _map_variable_types(nested)
    return types


def _list_leaves(plan: ReadPlan) -> Iterator[Output]:
    for value in _list_values(plan):
        yield from list_leaves(value)


def _list_values(plan: ReadPlan) -> Iterator[Output]:
    yield from (column.value for column in plan.columns)
    for node in _list_nodes(plan.root):
        if isinstance(node, Rank):
            yield node.ranking
        if isinstance(node, Rank | Sort):
            yield from (key.value for key in node.keys)
    yield from _list_filtered(_find_pattern(plan.root))


def _list_filtered(pattern: Pattern) -> Iterator[Output]:
    for predicate in pattern.filters:
        yield from list_operands_of(predicate)
    for nested in (*pattern.negations, *pattern.optionals):
        yield from _list_filtered(nested)
