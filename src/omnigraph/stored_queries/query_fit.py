"""Whether stored queries fit a schema, and which of them a change of it would break."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import CompileError, SchemaBreaksQueries
from omnigraph.plan.bind import bind_query
from omnigraph.plan.descriptor import JsonObject, describe_query
from omnigraph.plan.nodes import Plan
from omnigraph.stored_queries.registry import QueryRegistry, StoredQuery


@dataclass(frozen=True, slots=True)
class Breakage:
    """A query and what is wrong with it, or what its callers should know."""

    query: str
    message: str

    def wire(self) -> dict[str, object]:
        return {"query": self.query, "message": self.message}


@dataclass(frozen=True, slots=True)
class QueryFit:
    """What a check found; warnings do not stop a query from running."""

    breakages: tuple[Breakage, ...] = ()
    warnings: tuple[Breakage, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.breakages

    def wire(self) -> dict[str, object]:
        return {
            "ok": self.ok,
            "breakages": [one.wire() for one in self.breakages],
            "warnings": [one.wire() for one in self.warnings],
        }


def check_queries(registry: QueryRegistry, catalog: Catalog) -> QueryFit:
    """Check every stored query against a schema."""
    breakages, warnings = [], []
    for one in registry:
        problem = find_problem(one, catalog)
        if problem is not None:
            breakages.append(Breakage(one.name, problem))
        warnings += [Breakage(one.name, text) for text in _list_advice(one)]
    return QueryFit(tuple(breakages), tuple(warnings))


def check_schema_change(registry: QueryRegistry, accepted: Catalog, desired: Catalog) -> None:
    """Raise if a stored query that runs now would no longer run.

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
    """The entry of each query in a listing; `returns` is left out of one that does not fit."""
    entries = {}
    for one in registry:
        try:
            plan: Plan | None = bind_query(one.declaration, catalog, one.source)
        except CompileError:
            plan = None
        entries[one.name] = describe_query(one.declaration, plan)
    return entries


def find_problem(query: StoredQuery, catalog: Catalog) -> str | None:
    """Why a query cannot run with a schema, if it cannot."""
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
