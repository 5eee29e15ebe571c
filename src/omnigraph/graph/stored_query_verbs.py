"""List stored queries and run them by name."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import BadRequest, QueryNotFound
from omnigraph.graph.guard import Guard
from omnigraph.graph.mutating import WritingVerbs
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.reading_verbs import ReadingVerbs
from omnigraph.graph.results import MutationResult
from omnigraph.graph.revisions import RevisionLike, format_optional_revision
from omnigraph.stored_queries.query_registry import QueryRegistry, StoredQuery, describe_queries
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


class InvokingVerbs(ReadingVerbs, WritingVerbs):
    """Running queries that somebody wrote before."""

    def stored_queries(self) -> list[dict[str, object]]:
        """What can be run by name: what each query does, takes and gives.

        >>> graph.stored_queries()
        []
        """
        return list_queries(self._registry, self.at().view, self._guard)

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: RevisionLike | None = None,
        expect_mutation: bool | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> QueryResult | MutationResult:
        """Run a stored query, a read or a mutation.

        Args:
            name: Of the query; one that the actor may not run is as one that does not exist.
            params: Its parameters.
            branch: The branch to read or change.
            snapshot: Read there instead; only for reads.
            expect_mutation: Refuse to run a read, or a mutation, where the other is expected.
            expected_head: A mutation only runs if the branch is at this commit.
            actor: Who a commit is recorded for.
            message: A text kept with the commit.
            idempotency_key: Names a mutation: it is made once, however often it is asked for.

        >>> graph.invoke("nothing")
        Traceback (most recent call last):
        omnigraph.errors.QueryNotFound: query 'nothing' not found
        """
        found = find_query(self._registry, name, self._guard, actor)
        check_request(
            found,
            expect_mutation,
            is_pinned=snapshot is not None,
            is_conditional=expected_head is not None,
        )
        if found.is_mutation:
            return self.mutate(
                found.source,
                name,
                params,
                branch=branch,
                expected_head=expected_head,
                actor=actor,
                message=message,
                idempotency_key=idempotency_key,
            )
        read_at = format_optional_revision(snapshot)
        return self.at(snapshot=read_at, branch=branch).query(found.source, name, params)
