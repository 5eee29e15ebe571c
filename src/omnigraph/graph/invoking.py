"""Stored queries of a graph: which there are, and what has to hold before one is run."""

from __future__ import annotations

from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.graph.guard import Guard
from omnigraph.stored_queries.query_fit import describe_queries
from omnigraph.stored_queries.registry import QueryRegistry, StoredQuery
from omnigraph.writer.change import CatalogSnapshot


def list_queries(
    registry: QueryRegistry, view: CatalogSnapshot, guard: Guard
) -> list[dict[str, object]]:
    """The entries of the queries that the actor may run."""
    entries = describe_queries(registry, view.catalog)
    return [entry for name, entry in entries.items() if guard.may_invoke(name)]


def find_query(
    registry: QueryRegistry, name: str, guard: Guard, actor: str | None = None
) -> StoredQuery:
    """A query that the actor may run.

    Raises:
        QueryNotFound: there is none of this name, or they may not; nobody can tell which.
    """
    found = registry.find(name)
    if found is None or not guard.may_invoke(name, actor):
        raise QueryNotFound(name)
    return found


def check_request(
    query: StoredQuery,
    expect_mutation: bool | None,  # noqa: FBT001
    *,
    is_pinned: bool,
    is_conditional: bool,
) -> None:
    """Refuse what does not go with the kind of the query."""
    if expect_mutation is True and not query.is_mutation:
        raise BadRequest(f"stored query '{query.name}' only reads; run it with `query`")
    if expect_mutation is False and query.is_mutation:
        raise BadRequest(f"stored query '{query.name}' changes the graph; run it with `mutate`")
    if query.is_mutation and is_pinned:
        raise BadRequest(f"stored query '{query.name}' changes the graph, and a snapshot is fixed")
    if not query.is_mutation and is_conditional:
        raise BadRequest(f"stored query '{query.name}' only reads, and expects no head")
