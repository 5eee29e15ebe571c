"""A write is made once, whatever becomes of the connection."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest

import omnigraph
from omnigraph.errors import OutcomeUnknown, ServerUnreachable
from server.serving import ADD, ALL

SOME = 65536


class Proxy:
    """A proxy between a client and a server that loses the messages the test names.

    `losses` has an entry for each connection: `request` drops it before the server sees anything,
    `answer` after the server has answered, `half` in the middle of the answer; None passes it on.
    """

    def __init__(self, address: str, losses: list[str | None]) -> None:
        host, _, port = address.rpartition(":")
        self._server, self._losses = (host, int(port)), losses
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return self._listening.getsockname()[1]

    def _run(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with client:
                self._pass_on(client, self._losses.pop(0) if self._losses else None)

    def _pass_on(self, client: socket.socket, loss: str | None) -> None:
        request = read_request(client)
        self.requests.append(request)
        if loss == "request":
            return
        with socket.create_connection(self._server) as server:
            head, _, rest = request.partition(b"\r\n")
            server.sendall(head + b"\r\nConnection: close\r\n" + rest)
            answer = b"".join(iter(lambda: server.recv(SOME), b""))
        if loss == "half":
            client.sendall(answer[: len(answer) - 20])
        elif loss is None:
            client.sendall(answer)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


def read_request(client: socket.socket) -> bytes:
    data = client.recv(SOME)
    while b"\r\n\r\n" not in data:
        data += client.recv(SOME)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (
            int(line.partition(b":")[2])
            for line in head.lower().splitlines()
            if line.startswith(b"content-length:")
        ),
        0,
    )
    while len(body) < length:
        body += client.recv(SOME)
    return head + b"\r\n\r\n" + body


@contextmanager
def losing(running, *losses: str | None) -> Iterator[tuple[omnigraph.ServedGraph, Proxy]]:
    proxy = Proxy(running.address, list(losses))
    try:
        url = f"http://127.0.0.1:{proxy.port}{running.graph}"
        with omnigraph.connect(url) as graph:
            yield graph, proxy
    finally:
        proxy.close()


def count(graph: omnigraph.ServedGraph, name: str) -> int:
    return sum(row["p.name"] == name for row in graph.query(ALL))


@pytest.mark.parametrize("loss", ["request", "answer", "half"])
def test_a_mutation_whose_connection_is_lost_is_committed_once(running, graph, loss: str) -> None:
    name = uuid4().hex
    before = len(graph.commits())
    with losing(running, loss) as (unreliable, proxy):
        done = unreliable.mutate(ADD, params={"name": name})
    assert done.commit == graph.commits()[0]
    assert done.is_replayed is (loss != "request")
    assert (count(graph, name), len(graph.commits())) == (1, before + 1)
    assert b"GET" in proxy.requests[1][:4]
    assert b"/writes/" in proxy.requests[1]


def test_a_load_and_a_merge_are_committed_once_too(running, graph) -> None:
    name, branch = uuid4().hex, uuid4().hex
    with losing(running, "answer") as (unreliable, _):
        loaded = unreliable.load(
            [{"type": "Person", "data": {"name": name}}], "append", branch=branch, base="main"
        )
    assert (loaded.nodes, loaded.is_replayed) == ({"Person": 1}, True)
    with losing(running, "answer") as (unreliable, _):
        merged = unreliable.merge(branch, delete_branch=True)
    assert merged.is_replayed
    assert merged.commit is not None
    assert merged.commit.commit_id == graph.commits()[0].commit_id
    assert (count(graph, name), branch in graph.branches()) == (1, False)


def test_a_write_without_a_reachable_server_is_unknown(running) -> None:
    with (
        losing(running, *["answer"] * 5) as (unreliable, proxy),
        pytest.raises(OutcomeUnknown, match="idempotency key"),
    ):
        unreliable.mutate(ADD, params={"name": uuid4().hex})
    assert sum(request.startswith(b"POST") for request in proxy.requests) == 1


def test_branches_are_created_and_deleted_once(running, graph) -> None:
    name = uuid4().hex
    with losing(running, "answer") as (unreliable, _):
        assert unreliable.create_branch(name).is_replayed
    assert name in graph.branches()
    with losing(running, "answer") as (unreliable, _):
        assert unreliable.delete_branch(name).is_replayed
    assert name not in graph.branches()


def test_a_change_without_a_key_is_never_sent_again(running, graph) -> None:
    name = uuid4().hex
    with losing(running, "answer") as (unreliable, proxy), pytest.raises(OutcomeUnknown):
        unreliable.tag(name)
    assert len(proxy.requests) == 1
    assert name in [tag.name for tag in graph.tags()]


def test_rows_that_end_too_early_are_never_mistaken_for_all(running) -> None:
    with losing(running, "half") as (unreliable, _), pytest.raises(ServerUnreachable):
        unreliable.query(ALL).to_arrow()
    with losing(running, "half") as (unreliable, _), pytest.raises(ServerUnreachable):
        list(unreliable.export())
    with losing(running, "half") as (unreliable, _):
        baseline = unreliable.baseline()
        with pytest.raises(ServerUnreachable):
            list(baseline.records())
        with pytest.raises(omnigraph.errors.BadRequest, match="once every record"):
            _ = baseline.resume_cursor
