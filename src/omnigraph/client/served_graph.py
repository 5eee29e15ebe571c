"""ServedGraph: the verbs of a graph, executed by a server; and connecting to one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from omnigraph.client.http_connection import ClientRequest, ServerConnection
from omnigraph.client.operator_config import (
    ServerAddress,
    choose_token,
    find_config_folder,
    parse_graph_address,
    read_config,
)
from omnigraph.client.served_object import refuse_actor, with_source_name
from omnigraph.client.served_view import refuse_engine
from omnigraph.client.served_writing import ServedHistory
from omnigraph.evolution.apply_result import SchemaApplyResult
from omnigraph.evolution.migration_plan import MigrationPlan
from omnigraph.graph.engines import EngineName
from omnigraph.graph.results import normalize_branch
from omnigraph.graph.revisions import RevisionLike
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.operations import operation_table as routes
from omnigraph.operations.route_spec import RouteSpec
from omnigraph.wire import request_bodies as asks
from omnigraph.wire.commit_results import Consumer, ConsumerList, Tag, TagList
from omnigraph.wire.read_results import BranchList, GraphList, render_types_html
from omnigraph.wire.request_bodies import BranchRenameRequest
from omnigraph.wire.write_results import CreatedBranch, DeletedBranch


class ServedSchema(ServedHistory):
    """Verbs of a served graph that plan and apply a schema."""

    def plan_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        expressions: Mapping[str, str] | None = None,
    ) -> MigrationPlan:
        """Plan the migration from the accepted schema to another one; changes nothing."""
        text = as_source_text(schema, "<schema>")
        body = asks.SchemaPlanRequest(
            schema_source=text.text,
            branch=self._choose(branch),
            allow_data_loss=allow_data_loss,
            expressions=dict(expressions) if expressions else None,
        )
        with with_source_name(text):
            request = ClientRequest(routes.PLAN_SCHEMA, body=body)
            return self._connection.ask(request)

    def apply_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        allow_drop_all: bool = False,
        expressions: Mapping[str, str] | None = None,
        mutations: Sequence[str | Path | SourceText] = (),
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaApplyResult:
        """Apply another schema to a branch as one commit, or change nothing."""
        refuse_actor(actor)
        refuse_engine(engine, session, spark_conf)
        text, where = as_source_text(schema, "<schema>"), self._choose(branch)
        changes = [as_source_text(one, "<mutation>") for one in mutations]
        body = asks.SchemaApplyRequest(
            schema_source=text.text,
            branch=where,
            allow_data_loss=allow_data_loss,
            allow_drop_all=allow_drop_all,
            expressions=dict(expressions) if expressions else None,
            mutations=[change.text for change in changes],
            expected_head=self._find_head(expected_head, branch),
            dry_run=dry_run,
            message=message,
        )
        request = ClientRequest(routes.APPLY_SCHEMA, body=body)
        others = {asks.name_mutation(number): change for number, change in enumerate(changes)}
        with with_source_name(text, others):
            return self._connection.ask(request, key=idempotency_key, branch=where)


PageT = TypeVar("PageT", BranchList, TagList, ConsumerList)


def connect(
    url: str,
    *,
    token: str | None = None,
    timeout: float | None = None,
    ca_file: str | None = None,
) -> ServedGraph:
    """Connect to a graph of a server; it has the verbs of a graph that is opened.

    Nothing is sent before the first verb is called.

    Args:
        url: Its address, such as `https://host/graphs/music`.
        token: The token to send; without it, the one the environment has or `omnigraph login`
            stored for the server.
        timeout: How many seconds to wait for the server to send anything; forever by default.
        ca_file: A file of certificates to trust instead of those of the system.

    >>> music = omnigraph.connect("https://graph.example.org/graphs/music", token="example")
    >>> music
    ServedGraph('https://graph.example.org/graphs/music')
    """
    address = parse_graph_address(url)
    given = find_token(address) if token is None else token
    return ServedGraph(ServerConnection(address, given, timeout=timeout, ca_file=ca_file))


def find_token(address: ServerAddress) -> str | None:
    """Return the token that the environment or the operator's files have for a server."""
    folder = find_config_folder()
    servers = read_config(folder, lambda _: None).servers
    found = choose_token(address.url, servers, os.environ, folder / "credentials")
    return None if found is None else found.text


def list_graphs(address: ServerAddress, timeout: float | None = None) -> GraphList:
    """List the graphs of a server."""
    connection = ServerConnection(address, find_token(address), timeout=timeout)
    try:
        return connection.ask(ClientRequest(routes.LIST_GRAPHS))
    finally:
        connection.close()


class ServedGraph(ServedSchema):
    """A graph behind a server, on its `main` branch; every verb takes another branch by name.

    Safe to share between threads. A verb that needs the storage raises `NotServed`.
    """

    def __init__(self, connection: ServerConnection) -> None:
        super().__init__(connection, MAIN)

    def __repr__(self) -> str:
        return f"ServedGraph({self.uri!r})"

    def _repr_html_(self) -> str:
        """Render the branches, and the types with their row counts on `main`, for notebooks."""
        note = f"{self.uri}; branches: {', '.join(self.branches())}"
        return render_types_html(self.snapshot(), note)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close idle connections."""
        self._connection.close()

    def branches(self) -> list[str]:
        """List the names of all branches, `main` first."""
        pages = self._read_pages(routes.LIST_BRANCHES)
        names = [name for page in pages for name in page.branches]
        return sorted(names, key=lambda name: (name != MAIN, name))

    def delete_branch(self, name: str, *, idempotency_key: str | None = None) -> DeletedBranch:
        """Delete a branch; its commits can no longer be reached by its name."""
        request = ClientRequest(routes.DELETE_BRANCH, path={"branch": normalize_branch(name)})
        return self._connection.ask(request, key=idempotency_key, branch=MAIN)

    def rename_branch(
        self, name: str, new_name: str, *, idempotency_key: str | None = None
    ) -> CreatedBranch:
        """Rename a branch; it stays the same branch, with its commits and its feed."""
        body = BranchRenameRequest(name=name, new_name=new_name)
        request = ClientRequest(routes.RENAME_BRANCH, body=body)
        return self._connection.ask(request, key=idempotency_key, branch=MAIN)

    def tags(self) -> list[Tag]:
        """List all tags by name."""
        pages = self._read_pages(routes.LIST_TAGS)
        return [one for page in pages for one in page.tags]

    def delete_tag(self, name: str) -> Tag:
        """Delete a tag; its commit is kept as long as anything else needs it."""
        request = ClientRequest(routes.DELETE_TAG, path={"tag": name.strip()})
        return self._connection.ask(request)

    def consumers(self) -> list[Consumer]:
        """List all consumers of the change feeds by name."""
        pages = self._read_pages(routes.LIST_CONSUMERS)
        return [one for page in pages for one in page.consumers]

    def delete_consumer(self, name: str) -> Consumer:
        """Delete a consumer; cleanup may then remove what only it protected."""
        request = ClientRequest(routes.DELETE_CONSUMER, path={"consumer": name.strip()})
        return self._connection.ask(request)

    def _read_pages(self, route: RouteSpec[PageT]) -> Iterator[PageT]:
        token: tuple[tuple[str, str], ...] = ()
        while True:
            page = self._connection.ask(ClientRequest(route, parameters=token))
            yield page
            if page.next_page_token is None:
                return
            token = (("page_token", page.next_page_token),)

    def branch(self, name: str) -> ServedBranch:
        """Return one branch, which has the verbs of the graph."""
        return ServedBranch(self, name)


class ServedBranch(ServedSchema):
    """One branch of a served graph, by name."""

    def __init__(self, graph: ServedGraph, name: str) -> None:
        super().__init__(graph._connection, name)
        self.graph = graph

    @property
    def name(self) -> str:
        return self._default_branch

    @property
    def revision(self) -> str:
        """The revision of its newest commit."""
        return f"branch:{self.name}"

    def __repr__(self) -> str:
        return f"ServedBranch({self.uri!r}, {self.name!r})"

    def _repr_html_(self) -> str:
        """Render the types with their row counts, for notebooks."""
        return self.at()._repr_html_()

    def delete(self) -> DeletedBranch:
        """Delete this branch."""
        return self.graph.delete_branch(self.name)

    def rename(self, new_name: str) -> CreatedBranch:
        """Rename this branch; this object uses the new name from now on."""
        created = self.graph.rename_branch(self.name, new_name)
        self._default_branch = str(created.name)
        return created
