"""Checking a query file against a schema, with advice in addition to the mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import CompileError, Diagnostic, Severity
from omnigraph.language.query.query_ast import MutationBody, QueryDecl
from omnigraph.language.query.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.descriptor import JsonObject, describe_operation
from omnigraph.plan.nodes import Plan
from omnigraph.plan.query_lint_rules import Checked, QueryLintFinding, lint_checked

HARDCODED = "declares no params: hardcoded mutations are easy to miss"

_SEVERITIES = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class QueryLintResult:
    """What was found about one query: its operation, or the text of its mistakes."""

    name: str
    kind: str
    warnings: tuple[str, ...] = ()
    error: str | None = None
    operation: Mapping[str, object] | None = None

    @property
    def status(self) -> str:
        return "ok" if self.error is None else "error"

    def wire(self) -> JsonObject:
        body: JsonObject = {"name": self.name, "kind": self.kind, "status": self.status}
        if self.warnings:
            body["warnings"] = list(self.warnings)
        if self.error is not None:
            body["error"] = self.error
        if self.operation is not None:
            body["operation"] = dict(self.operation)
        return body

    def lines(self) -> Iterator[str]:
        yield f"{self.status:<5}  {self.kind:<8}  {self.name}"
        yield from (f"       warning: {warning}" for warning in self.warnings)
        if self.error is not None:
            yield from (f"       {line}" for line in self.error.splitlines())


@dataclass(frozen=True, slots=True)
class LintReport:
    """The outcome of a lint run; `status` is `error` when any query cannot run."""

    schema_source: Mapping[str, object]
    query_path: str
    results: tuple[QueryLintResult, ...] = ()
    findings: tuple[QueryLintFinding, ...] = ()

    @property
    def counts(self) -> Counter[Severity]:
        counts = Counter(finding.severity for finding in self.findings)
        for result in self.results:
            counts[Severity.WARNING] += len(result.warnings)
            counts[Severity.ERROR] += result.error is not None
        return counts

    @property
    def status(self) -> str:
        return "error" if self.counts[Severity.ERROR] else "ok"

    @property
    def exit_code(self) -> int:
        return 1 if self.status == "error" else 0

    def wire(self) -> JsonObject:
        counts = self.counts
        return {
            "status": self.status,
            "schema_source": dict(self.schema_source),
            "query_path": self.query_path,
            "queries_processed": len(self.results),
            "errors": counts[Severity.ERROR],
            "warnings": counts[Severity.WARNING],
            "infos": counts[Severity.INFO],
            "results": [result.wire() for result in self.results],
            "findings": [finding.wire() for finding in self.findings],
        }

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
        return LintReport(schema_source, source.name, findings=_sort_findings(mistakes))
    results, checked = [], []
    for decl in file.queries:
        plan, error_text = _try_bind(decl, catalog, source)
        results.append(_make_result(decl, plan, error_text))
        if plan is not None:
            checked.append(Checked(decl, plan))
    findings = _sort_findings(lint_checked(checked, catalog, source))
    return LintReport(schema_source, source.name, tuple(results), findings)


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
        warnings=(f"mutation '{decl.name}' {HARDCODED}",) if hardcoded else (),
        error=error,
        operation=None if plan is None else describe_operation(plan),
    )


def _render_text(diagnostic: Diagnostic) -> str:
    place = f"{diagnostic.source}:{diagnostic.line}:{diagnostic.column}"
    return f"{diagnostic.headline()} at {place}"


def _sort_findings(findings: Iterable[QueryLintFinding]) -> tuple[QueryLintFinding, ...]:
    """Findings by severity, type, property and code; equal ones of several queries as one."""
    names: dict[QueryLintFinding, set[str]] = {}
    for finding in findings:
        names.setdefault(replace(finding, query_names=()), set()).update(finding.query_names)
    merged = [replace(f, query_names=tuple(sorted(found))) for f, found in names.items()]
    return tuple(sorted(merged, key=_find_place))


def _find_place(finding: QueryLintFinding) -> tuple[int, str, str, str]:
    severity = _SEVERITIES[finding.severity]
    return severity, finding.type_name or "", finding.property or "", finding.code
