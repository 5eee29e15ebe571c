"""ServedGraph: the verbs of a graph, carried out by a server; and how to connect to one."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from msgspec import UNSET

from omnigraph.client.credentials import choose_token
from omnigraph.client.http_connection import ClientRequest, ServerConnection
from omnigraph.client.keyed_requests import send_keyless
from omnigraph.client.operator_config import find_config_folder, read_config
from omnigraph.client.served_writing import ServedWriting
from omnigraph.client.server_address import ServerAddress, parse_graph_address
from omnigraph.graph.branch_names import normalize_branch
from omnigraph.graph.results import DeletedBranch, render_types_html
from omnigraph.identity import MAIN
from omnigraph.wire import response_bodies as bodies


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
    """The token that the environment or the operator's files have for a server."""
    folder = find_config_folder()
    servers = read_config(folder, lambda _: None).servers
    found = choose_token(address.url, servers, os.environ, folder / "credentials")
    return None if found is None else found.text


def list_graphs(address: ServerAddress, token: str | None = None) -> bodies.GraphListOutput:
    """The graphs that a server has."""
    given = find_token(address) if token is None else token
    connection = ServerConnection(address, given)
    try:
        return connection.ask_for(ClientRequest("listGraphs"), bodies.GraphListOutput)
    finally:
        connection.close()


class ServedGraph(ServedWriting):
    """A graph behind a server, on its `main` branch; every verb takes another branch by name.

    Safe to share between threads. What only works on storage raises `NotServed`.
    """

    def __init__(self, connection: ServerConnection) -> None:
        super().__init__(connection, MAIN)

    def __repr__(self) -> str:
        return f"ServedGraph({self.uri!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the branches, and the types with how many rows each has on `main`."""
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
        """Close the connections that nothing uses."""
        self._connection.close()

    def branches(self) -> list[str]:
        """The names of all branches, `main` first."""
        found: list[str] = []
        token: tuple[tuple[str, str], ...] = ()
        while True:
            body = self._connection.ask_for(
                ClientRequest("listBranches", parameters=token), bodies.BranchListOutput
            )
            found += body.branches
            if body.next_page_token is UNSET:
                return sorted(found, key=lambda name: (name != MAIN, name))
            token = (("page_token", body.next_page_token),)

    def delete_branch(self, name: str) -> DeletedBranch:
        """Delete a branch; its commits can no longer be reached by its name."""
        request = ClientRequest("deleteBranch", path={"branch": normalize_branch(name)})
        answer = send_keyless(self._connection, request)
        gone = self._connection.decode(answer, bodies.BranchDeleteOutput)
        return DeletedBranch(gone.name, gone.actor_id)

    def branch(self, name: str) -> ServedBranch:
        """The same verbs, bound to one branch."""
        return ServedBranch(self, name)


class ServedBranch(ServedWriting):
    """One branch of a served graph, by name."""

    def __init__(self, graph: ServedGraph, name: str) -> None:
        super().__init__(graph._connection, name)
        self.graph = graph

    @property
    def name(self) -> str:
        return self._default_branch

    def __repr__(self) -> str:
        return f"ServedBranch({self.uri!r}, {self.name!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the types with how many rows each has here."""
        return self.at()._repr_html_()

    def delete(self) -> DeletedBranch:
        """Delete this branch."""
        return self.graph.delete_branch(self.name)
