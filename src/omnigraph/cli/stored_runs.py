"""Queries that a server or a cluster stores, run by name where no text is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from omnigraph.cli.command_target import CommandTarget

if TYPE_CHECKING:
    from omnigraph.client.served_graph import ServedGraph
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.query_result import QueryResult
    from omnigraph.graph.results import MutationResult

At = tuple[str | None, str | None, str | None]
"""The branch, the place and the snapshot that are given."""


def is_stored(scope: CommandTarget, name: str | None, path: str | None, text: str | None) -> bool:
    """Whether a stored query is meant: by name, where queries are stored, without any text."""
    if path is not None or text is not None or not scope.has_stored_queries:
        return False
    if name is None:
        raise click.UsageError(
            "give the query: its text with --query FILE or -e, or the name of a stored one"
        )
    return True


def invoke_read(
    scope: CommandTarget, name: str | None, parameters: Mapping[str, object] | None, at: At
) -> QueryResult:
    """The rows of a stored query."""
    from omnigraph.graph.query_result import QueryResult

    branch, place, snapshot = at
    graph = scope.reach_stored(read_only=True)
    if place is not None:
        snapshot = graph.at(place, branch=branch or "main").info().snapshot_id
    result = graph.invoke(
        name or "",
        parameters,
        branch=branch if snapshot is None else None,
        snapshot=snapshot,
        expect_mutation=False,
    )
    assert isinstance(result, QueryResult), "a mutation was refused"
    return result


def invoke_mutation(
    graph: Graph | ServedGraph,
    name: str | None,
    parameters: Mapping[str, object] | None,
    branch: str,
    expected_head: str | None,
    message: str | None = None,
) -> MutationResult:
    """What a stored mutation changed."""
    from omnigraph.graph.results import MutationResult

    result = graph.invoke(
        name or "",
        parameters,
        branch=branch,
        expect_mutation=True,
        expected_head=expected_head,
        message=message,
    )
    assert isinstance(result, MutationResult), "a read was refused"
    return result
