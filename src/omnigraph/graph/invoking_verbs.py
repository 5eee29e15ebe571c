"""The verbs about stored queries, which are run by name."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.graph.place_names import PlaceLike, name_optional_place
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.reading_verbs import ReadingVerbs
from omnigraph.graph.results import MutationResult
from omnigraph.graph.writing_verbs import WritingVerbs


class InvokingVerbs(ReadingVerbs, WritingVerbs):
    """Running queries that somebody wrote before."""

    def stored_queries(self) -> list[dict[str, object]]:
        """What can be run by name: what each query does, takes and gives.

        >>> graph.stored_queries()
        []
        """
        from omnigraph.graph import invoking

        return invoking.list_queries(self._registry, self.at().view, self._guard)

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: PlaceLike | None = None,
        expect_mutation: bool | None = None,
        expected_head: PlaceLike | None = None,
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
        from omnigraph.graph import invoking

        found = invoking.find_query(self._registry, name, self._guard, actor)
        invoking.check_request(
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
        read_at = name_optional_place(snapshot)
        return self.at(snapshot=read_at, branch=branch).query(found.source, name, params)
