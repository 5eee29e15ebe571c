"""Addresses, tokens, and servers that cannot be reached."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading

import pytest

import omnigraph
from omnigraph.client.operator_config import ServerAddress, parse_graph_address
from omnigraph.errors import (
    BadRequest,
    NotAuthenticated,
    ServerUnreachable,
    UnexpectedAnswer,
)
from server.conftest import make_people
from server.serving import ADD, ALL, serving


@pytest.mark.parametrize(
    ("url", "base", "graph_id"),
    [
        ("https://h/graphs/a", "https://h", "a"),
        ("http://h:8080/graphs/a-1/", "http://h:8080", "a-1"),
        ("https://h/below/graphs/a", "https://h/below", "a"),
    ],
)
def test_an_address_names_a_server_and_a_graph(url: str, base: str, graph_id: str) -> None:
    assert parse_graph_address(url) == ServerAddress(base, graph_id)


@pytest.mark.parametrize(
    "url",
    [
        "music.omni",
        "s3://b/graphs/a",
        "https://h",
        "https://h/graphs/",
        "https://h/graphs/a/b",
        "https://h/graphs/a_b",
        "https://h/graphs/a?x=1",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(BadRequest):
        omnigraph.connect(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadRequest) as refused:
        omnigraph.connect("https://maria:hush@h/graphs/a")
    assert "hush" not in str(refused.value)


def test_a_server_that_is_not_there_cannot_be_reached() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    graph = omnigraph.connect(f"http://127.0.0.1:{port}/graphs/a", token="hush-hush")
    for verb in (graph.branches, lambda: graph.query(ALL), lambda: graph.mutate(ADD)):
        with pytest.raises(ServerUnreachable) as failed:
            verb()
        assert "0x" not in str(failed.value)
        assert (
            "hush" not in f"{failed.value!r} {graph!r} {graph.__dict__} {failed.value.__cause__!r}"
        )


def test_an_answer_of_something_else_is_distinguished_from_one_of_a_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 502 Bad\r\nContent-Length: 9\r\n\r\n<p>no</p>")

        thread = threading.Thread(target=answer)
        thread.start()
        graph = omnigraph.connect(f"http://127.0.0.1:{listening.getsockname()[1]}/graphs/a")
        with pytest.raises(UnexpectedAnswer, match=r"answered 502.*<p>no</p>"):
            graph.branches()
        thread.join()


def test_a_token_comes_from_the_caller_the_environment_or_a_login(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = make_people(tmp_path / "people.omni")
    tokens = json.dumps({"maria": "letmein"})
    with serving(people, flags=(), OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=tokens) as server:
        base = f"http://{server.address}"
        url = f"{base}{server.graph}"
        home = tmp_path / "home"
        monkeypatch.setenv("OMNIGRAPH_HOME", str(home))
        with pytest.raises(NotAuthenticated):
            omnigraph.connect(url).branches()
        with pytest.raises(NotAuthenticated):
            omnigraph.connect(url, token="wrong").branches()
        assert omnigraph.connect(url, token=" letmein\n").branches() == ["main"]
        monkeypatch.setenv("OMNIGRAPH_BEARER_TOKEN", "letmein")
        assert omnigraph.connect(url).branches() == ["main"]
        monkeypatch.delenv("OMNIGRAPH_BEARER_TOKEN")
        home.mkdir()
        (home / "config.yaml").write_text(f"servers: {{lab: {{url: '{base}'}}}}")
        (home / "credentials").write_text("[lab]\ntoken = letmein\n")
        (home / "credentials").chmod(0o600)
        assert omnigraph.connect(url).branches() == ["main"]


def test_importing_the_library_loads_no_http_client() -> None:
    code = "import omnigraph, sys; assert 'urllib3' not in sys.modules; omnigraph.errors"
    subprocess.run([sys.executable, "-c", code], check=True)
