"""Lint query files against a schema: mistakes, advice about legal queries, and their codes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from omnigraph.catalog.catalog import Catalog, ConstraintKind, NodeType
from omnigraph.errors import CompileError, Diagnostic, Severity
from omnigraph.identity import EntityKind, make_table_key
from omnigraph.language.lexer import TokenKind, tokenize
from omnigraph.language.query_ast import MutationBody, QueryDecl, ReadBody
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import Problems, SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.compile import describe_operation
from omnigraph.plan.expressions import Output, TextScore, VectorDistance
from omnigraph.plan.plan_nodes import (
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
from omnigraph.result import Result

TYPE_CODES: Mapping[str, str] = {
    "T1": "A binding names something that is neither a node type nor an implemented interface.",
    "T2": "An inline property match names a property the type does not have.",
    "T3": "A literal does not fit the property it is matched with, compared with or assigned to.",
    "T4": "A traversal names an edge type the schema does not have.",
    "T5": "A variable's type does not fit the end of the edge it is used at.",
    "T6": "A variable is not bound, or its type has no such property.",
    "T7": "Two operands cannot be compared, or a value has the wrong type for a property.",
    "T8": "An aggregate is used on a value it cannot take, or where no aggregate can stand.",
    "T9": "A negation uses no variable from outside, or a grouped query returns a value "
    "that cannot be a group key.",
    "T10": "A mutation names an unknown type or assigns nothing.",
    "T11": "An assignment or a where clause names a property the type does not have or cannot use.",
    "T12": "An insert leaves out a required property or an endpoint.",
    "T13": "A property is assigned twice.",
    "T14": "A value must be a literal, a declared query parameter or now().",
    "T15": "Hop bounds are not valid, or nearest() is used on a value that does not fit.",
    "T16": "An update assigns an endpoint of an edge.",
    "T17": "nearest() is the first ordering key and there is no limit.",
    "T18": "nearest() and a column alias are ordering keys of one query.",
    "T19": "search() or fuzzy() has an argument of the wrong kind.",
    "T20": "match_text() or bm25() has an argument of the wrong kind or the wrong direction.",
    "T21": "rrf() has a wrong argument or direction, no limit, or is used in a condition.",
    "T22": "An undirected traversal follows an edge whose two ends have different types.",
    "T23": "An edge variable is used as something else.",
    "T24": "A Blob is read as a value.",
    "T25": "An optional block uses no variable from outside, or a variable that may be missing "
    "is used where it must be present.",
    "T26": "type() is used on something that is not a node variable.",
    "T27": "A hop count is used as something else.",
    "T28": "A limit or an offset is not a whole number of rows.",
    "T29": "A merge targets a type without a key.",
    "T30": "An update assigns a key property.",
    "T31": "Two columns of a result, or two fields of an object, have one name.",
    "T32": "A variable has the name of a parameter.",
    "T33": "A variable is bound to two types that have no node in common, or cannot be bound.",
    "T34": "Rows cannot be ordered by this key.",
    "T35": "A match takes more steps than a plan may have.",
    "D2": "A mutation mixes inserts or updates with deletes.",
}
"""Each code with the one sentence that explains it."""

LINT_CODES: Mapping[str, str] = {
    "Q000": "The query file does not parse.",
    "L201": "A nullable property of a type with update queries is set by none of them.",
    "L202": "A parameter is never used.",
    "L203": "A variable is named once and never used.",
    "L204": "Nothing connects two parts of a pattern, so every combination is a row.",
    "L205": "A limit without an order keeps the first rows by identity.",
    "L206": "A ranking looks into a property that declares no index.",
}
"""Findings of lint in queries that may well compile."""


class QueryLintFinding(Result, frozen=True):
    """A finding of lint about a query."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()

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
    """All findings about the queries, in no particular order."""
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
    """Names that occur only once in the text of a query, at their introduction."""
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


HARDCODED = "declares no params: hardcoded mutations are easy to miss"

_SEVERITIES = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


class QueryLintResult(Result, frozen=True):
    """Lint result of one query: its operation, or the text of its mistakes."""

    name: str
    kind: str
    status: str
    warnings: tuple[str, ...] = ()
    error: str | None = None
    operation: Mapping[str, object] | None = None

    def lines(self) -> Iterator[str]:
        yield f"{self.status:<5}  {self.kind:<8}  {self.name}"
        yield from (f"       warning: {warning}" for warning in self.warnings)
        if self.error is not None:
            yield from (f"       {line}" for line in self.error.splitlines())


class LintReport(Result, frozen=True):
    """The outcome of a lint run; `status` is `error` when any query cannot run."""

    status: str
    schema_source: Mapping[str, object]
    query_path: str
    queries_processed: int
    errors: int
    warnings: int
    infos: int
    results: tuple[QueryLintResult, ...]
    findings: tuple[QueryLintFinding, ...]

    @classmethod
    def of(
        cls,
        schema_source: Mapping[str, object],
        query_path: str,
        results: tuple[QueryLintResult, ...],
        findings: tuple[QueryLintFinding, ...],
    ) -> LintReport:
        """Return the report with its counts."""
        counts = Counter(finding.severity for finding in findings)
        for result in results:
            counts[Severity.WARNING] += len(result.warnings)
            counts[Severity.ERROR] += result.error is not None
        return cls(
            status="error" if counts[Severity.ERROR] else "ok",
            schema_source=schema_source,
            query_path=query_path,
            queries_processed=len(results),
            errors=counts[Severity.ERROR],
            warnings=counts[Severity.WARNING],
            infos=counts[Severity.INFO],
            results=results,
            findings=findings,
        )

    @property
    def counts(self) -> Counter[Severity]:
        found = zip(_SEVERITIES, (self.errors, self.warnings, self.infos), strict=True)
        return Counter(dict(found))

    @property
    def exit_code(self) -> int:
        return 1 if self.status == "error" else 0

    def lines(self) -> list[str]:
        """One line for each query, then the findings, then the totals."""
        counts = self.counts
        drawn = [line for result in self.results for line in result.lines()]
        drawn += [finding.line() for finding in self.findings]
        totals = ", ".join(f"{counts[s]} {s}s" for s in _SEVERITIES)
        drawn.append(f"{self.query_path}: {len(self.results)} queries, {totals}")
        return drawn


def lint_queries(
    source: SourceText, catalog: Catalog, schema_source: Mapping[str, object]
) -> LintReport:
    """Check every query of a file; `schema_source` says where the schema came from."""
    try:
        file = parse_query_file(source)
    except CompileError as error:
        mistakes = [
            QueryLintFinding(Severity.ERROR, "Q000", _render_text(d)) for d in error.diagnostics
        ]
        return LintReport.of(schema_source, source.name, (), _sort_findings(mistakes))
    results, checked = [], []
    for decl in file.queries:
        plan, error_text = _try_bind(decl, catalog, source)
        results.append(_make_result(decl, plan, error_text))
        if plan is not None:
            checked.append(Checked(decl, plan))
    findings = _sort_findings(lint_checked(checked, catalog, source))
    return LintReport.of(schema_source, source.name, tuple(results), findings)


def _try_bind(
    decl: QueryDecl, catalog: Catalog, source: SourceText
) -> tuple[Plan | None, str | None]:
    try:
        return bind_query(decl, catalog, source), None
    except CompileError as error:
        return None, "\n".join(_render_text(diagnostic) for diagnostic in error.diagnostics)


def _make_result(decl: QueryDecl, plan: Plan | None, error: str | None) -> QueryLintResult:
    is_mutation = isinstance(decl.body, MutationBody)
    hardcoded = is_mutation and not decl.parameters
    return QueryLintResult(
        name=decl.name,
        kind="mutation" if is_mutation else "read",
        status="ok" if error is None else "error",
        warnings=(f"mutation '{decl.name}' {HARDCODED}",) if hardcoded else (),
        error=error,
        operation=None if plan is None else describe_operation(plan),
    )


def _render_text(diagnostic: Diagnostic) -> str:
    position = f"{diagnostic.source}:{diagnostic.line}:{diagnostic.column}"
    return f"{diagnostic.headline()} at {position}"


def _sort_findings(findings: Iterable[QueryLintFinding]) -> tuple[QueryLintFinding, ...]:
    """Findings by severity, type, property and code; equal ones of several queries as one."""
    names: dict[QueryLintFinding, set[str]] = {}
    for finding in findings:
        names.setdefault(replace(finding, query_names=()), set()).update(finding.query_names)
    merged = [replace(f, query_names=tuple(sorted(found))) for f, found in names.items()]
    return tuple(sorted(merged, key=_find_position))


def _find_position(finding: QueryLintFinding) -> tuple[int, str, str, str]:
    severity = _SEVERITIES[finding.severity]
    return severity, finding.type_name or "", finding.property or "", finding.code
