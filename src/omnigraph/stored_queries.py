"""Stored queries: named queries in files, checked against a schema and its changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import BadRequest, CompileError, Diagnostic, SchemaBreaksQueries
from omnigraph.language.query_ast import MutationBody, QueryDecl
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.compile import JsonObject, describe_query
from omnigraph.plan.plan_nodes import Plan
from omnigraph.result import Result

SUFFIX = ".gq"


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """A query and its source, which is named like its file.

    The folder is omitted: errors are also shown to clients that run the query on a server.
    """

    declaration: QueryDecl
    source: SourceText

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.declaration.body, MutationBody)


@dataclass(frozen=True, slots=True)
class QueryRegistry:
    """Stored queries, sorted by name."""

    queries: Mapping[str, StoredQuery] = field(default_factory=dict)

    def __iter__(self) -> Iterator[StoredQuery]:
        return iter(self.queries.values())

    def __len__(self) -> int:
        return len(self.queries)

    def find(self, name: str) -> StoredQuery | None:
        return self.queries.get(name)


def load_registry(*paths: str | Path) -> QueryRegistry:
    """Read the queries of files, and of all `.gq` files in folders.

    Raises:
        BadRequest: a file cannot be read.
        CompileError: a text is not a query file, or a name appears twice; with every mistake.
    """
    return parse_registry(_read(file) for path in paths for file in _list_files(Path(path)))


def parse_registry(sources: Iterable[SourceText]) -> QueryRegistry:
    """Parse the queries of sources."""
    found: dict[str, StoredQuery] = {}
    files: dict[str, str] = {}
    mistakes: list[Diagnostic] = []
    for source in sources:
        try:
            declared = parse_query_file(source).queries
        except CompileError as error:
            mistakes += error.diagnostics
            continue
        named = replace(source, name=PurePath(source.name).name)
        for one in declared:
            known = files.get(one.name)
            if known is not None:
                message = f"query '{one.name}' is also defined in {known}"
                mistakes.append(source.diagnostic("P110", message, one.name_span))
            found[one.name], files[one.name] = StoredQuery(one, named), source.name
    if mistakes:
        raise CompileError(mistakes)
    return QueryRegistry({name: found[name] for name in sorted(found)})


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(one for one in path.iterdir() if one.suffix == SUFFIX and one.is_file())


def _read(path: Path) -> SourceText:
    try:
        return SourceText.from_bytes(path.read_bytes(), str(path))
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error


class Breakage(Result, frozen=True):
    """A query with its error, or with advice for its callers."""

    query: str
    message: str


class QueryFit(Result, frozen=True):
    """The result of a check; warnings do not stop a query from running."""

    ok: bool
    breakages: tuple[Breakage, ...]
    warnings: tuple[Breakage, ...]


def check_queries(registry: QueryRegistry, catalog: Catalog) -> QueryFit:
    """Check every stored query against a schema."""
    breakages, warnings = [], []
    for one in registry:
        problem = find_problem(one, catalog)
        if problem is not None:
            breakages.append(Breakage(one.name, problem))
        warnings += [Breakage(one.name, text) for text in _list_advice(one)]
    return QueryFit(not breakages, tuple(breakages), tuple(warnings))


def check_schema_change(registry: QueryRegistry, accepted: Catalog, desired: Catalog) -> None:
    """Raise if a schema change breaks a stored query that runs now.

    Raises:
        SchemaBreaksQueries: with the queries that would break.
    """
    broken = [
        (one.name, problem)
        for one in registry
        if find_problem(one, accepted) is None
        and (problem := find_problem(one, desired)) is not None
    ]
    if broken:
        raise SchemaBreaksQueries(broken)


def describe_queries(registry: QueryRegistry, catalog: Catalog) -> dict[str, JsonObject]:
    """Return the listing entry of each query; one that does not fit has no `returns`."""
    entries = {}
    for one in registry:
        try:
            plan: Plan | None = bind_query(one.declaration, catalog, one.source)
        except CompileError:
            plan = None
        entries[one.name] = describe_query(one.declaration, plan)
    return entries


def find_problem(query: StoredQuery, catalog: Catalog) -> str | None:
    """Return the reason why a query cannot run with a schema; None if it can."""
    try:
        bind_query(query.declaration, catalog, query.source)
    except CompileError as error:
        return error.message
    return None


def _list_advice(query: StoredQuery) -> Iterator[str]:
    for one in query.declaration.parameters:
        if one.type.is_vector:
            yield (
                f"parameter ${one.name} is a vector, which agents cannot supply; take a String and "
                "let it be embedded"
            )
