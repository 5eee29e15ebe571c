"""Limits of a server on concurrency and duration."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

import omnigraph
from omnigraph.errors import ServerBusy
from omnigraph.storage.graph_root import GraphRoot
from server.serving import ADD, ALL, serving
from waiting import wait_until

PAIRS = (
    "query q() { match { $a: Person  $b: Person  $a.name < $b.name } return { count($a) as n } }"
)


def fill(place, count: int) -> None:
    records = [{"type": "Person", "data": {"name": f"p{n:06}"}} for n in range(count)]
    omnigraph.open(place).load(records, "append")


def test_sixteen_writes_of_an_actor_are_admitted_and_the_next_is_refused(people) -> None:
    patient = {"OMNIGRAPH_WRITER_WAIT": "600"}
    with serving(people, **patient) as server, ThreadPoolExecutor(16) as threads:
        with GraphRoot.at(str(people)).acquire_fence():  # no writer acquires the fence
            waiting = [
                threads.submit(server.post, "mutate", {"query": ADD, "params": {"name": f"n{n}"}})
                for n in range(16)
            ]
            wait_until(lambda: server.log.count("policy decision") >= 16)
            refused = server.post("mutate", {"query": ADD, "params": {"name": "late"}})
            assert (refused.status, refused.body["code"]) == (429, "too_many_requests")
            assert refused.headers["retry-after"] == "60"
            assert server.post("query", {"query": ALL}).status == 200
            assert server.get("/healthz").status == 200
        assert {one.result().status for one in waiting} == {200}
        assert server.post("mutate", {"query": ADD, "params": {"name": "late"}}).status == 200
        assert server.post("query", {"query": ALL}).body["row_count"] == 19


def test_a_server_has_so_many_requests_in_progress_and_refuses_the_next(people) -> None:
    records = ({"type": "Person", "data": {"name": f"{n:06}" + "x" * 2_000}} for n in range(5_000))
    omnigraph.open(people).load(records, "append")
    given = {"OMNIGRAPH_SERVER_MAX_REQUESTS": "2", "OMNIGRAPH_SERVER_IDLE_SECONDS": "300"}
    with serving(people, **given) as server:
        slow = [_start_export(server) for _ in range(2)]
        try:
            busy = server.post("query", {"query": ALL})
            assert (busy.status, busy.body["kind"]) == (503, "server_busy")
            assert (busy.headers["retry-after"], "code" in busy.body) == ("1", True)
            graph = omnigraph.connect(f"http://{server.address}{server.graph}")
            with graph, pytest.raises(ServerBusy, match="2 requests in progress"):
                graph.branches()
            for probe in ("/healthz", "/readyz"):
                assert server.get(probe).status == 200
        finally:
            for client in slow:
                client.close()
        wait_until(lambda: server.get("branches").status == 200)
        assert "Traceback" not in server.log, "a refusal is nothing to look into"


def test_a_query_that_takes_too_long_is_ended_and_its_thread_comes_back(people) -> None:
    fill(people, 6_000)
    given = {"OMNIGRAPH_QUERY_TIMEOUT": "0.2", "OMNIGRAPH_SERVER_READ_THREADS": "1"}
    with serving(people, **given) as server:
        answer = server.post("query", {"query": PAIRS})
        assert (answer.status, answer.body["kind"]) == (504, "deadline_exceeded")
        assert answer.body["deadline"] == {"limit_ms": 200}
        # The only thread is free again once the engine has noticed.
        few = 'query q() { match { $p: Person  $p.name = "Ada" } return { $p.age } }'
        wait_until(lambda: server.post("query", {"query": few}).status == 200)


def test_a_client_that_leaves_ends_its_query(people) -> None:
    fill(people, 6_000)
    given = {"OMNIGRAPH_QUERY_TIMEOUT": "0", "OMNIGRAPH_SERVER_READ_THREADS": "1"}
    with serving(people, **given) as server:
        connection = server.connect()
        connection.request(
            "POST",
            f"{server.graph}/query",
            f'{{"query": "{PAIRS}"}}',
            {"Content-Type": "application/json"},
        )
        wait_until(lambda: "policy decision" in server.log)
        connection.close()
        wait_until(lambda: "status=499" in server.log)
        assert server.post("query", {"query": ALL}).status == 200


def test_an_answer_in_one_document_has_a_limit_and_a_stream_has_none(people) -> None:
    fill(people, 50)
    with serving(people, OMNIGRAPH_QUERY_MAX_ROWS="10") as server:
        refused = server.post("query", {"query": ALL})
        assert (refused.status, refused.body["resource_limit"]["resource"]) == (413, "query_rows")
        lines = server.post("query", {"query": ALL}, headers={"Accept": "application/x-ndjson"})
        assert len(lines.lines) == 52


def test_readers_that_do_not_read_block_only_the_next_export(people) -> None:
    records = ({"type": "Person", "data": {"name": f"{n:06}" + "x" * 2_000}} for n in range(20_000))
    omnigraph.open(people).load(records, "append")
    given = {"OMNIGRAPH_SERVER_STREAMS": "2", "OMNIGRAPH_SERVER_READ_THREADS": "1"}
    with serving(people, OMNIGRAPH_SERVER_IDLE_SECONDS="300", **given) as server:
        clients = [_start_export(server) for _ in range(2)]
        try:
            busy = server.post("export")
            assert (busy.status, busy.headers["retry-after"]) == (413, "1")
            assert busy.body["resource_limit"]["resource"] == "stream_export_transport_bytes"
            assert server.get("snapshot").status == 200
        finally:
            for client in clients:
                client.close()
        wait_until(lambda: server.post("export", {"type_names": ["Knows"]}).status == 200)


def test_a_reader_that_stops_reading_is_cut_off_and_so_is_a_body_that_does_not_come(people) -> None:
    records = ({"type": "Person", "data": {"name": f"{n:06}" + "x" * 2_000}} for n in range(20_000))
    omnigraph.open(people).load(records, "append")
    given = {"OMNIGRAPH_SERVER_STREAMS": "1", "OMNIGRAPH_SERVER_IDLE_SECONDS": "1"}
    with serving(people, **given) as server:
        stuck = _start_export(server)
        half = socket.create_connection((server.host, server.port), timeout=600)
        try:
            half.sendall(
                f"POST {server.graph}/query HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
                "Content-Type: application/json\r\n\r\n{".encode()
            )
            said = b""
            while piece := half.recv(4096):
                said += piece
            assert said.startswith(b"HTTP/1.1 408")
            wait_until(lambda: "stopped reading" in server.log)
            wait_until(lambda: server.post("export", {"type_names": ["Knows"]}).status == 200)
            stuck.settimeout(600)
            rest = _read_all(stuck)
            assert not rest.endswith(b"0\r\n\r\n"), "a part must not pass for the whole"
        finally:
            stuck.close()
            half.close()


def test_metrics_are_served_where_enabled_and_nowhere_else(people, tmp_path) -> None:
    audit = tmp_path / "audit.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    flags = ("--unauthenticated", "--metrics-bind", f"127.0.0.1:{port}")
    with serving(people, flags=flags, OMNIGRAPH_AUDIT_FILE=str(audit)) as server:
        server.post("query", {"query": ALL})
        done = server.post("mutate", {"query": ADD, "params": {"name": "Cy"}})
        server.get("/graphs")
        assert server.get("/metrics").status == 404
        text = _read_metrics(port)
        for line in (
            'omnigraph_requests_total{operation="query",status="200"} 1.0',
            'omnigraph_commits_total{operation="mutate"} 1.0',
            "omnigraph_rows_returned_total 2.0",
            "omnigraph_denials_total 1.0",
            "omnigraph_open_graphs 1.0",
            "omnigraph_requests_in_flight 0.0",
        ):
            assert line in text
        assert re.search(r'omnigraph_request_seconds_bucket\{le="0\.001",operation="query"\}', text)
        lines = audit.read_text().splitlines()
        assert len(lines) == 2
        assert done.body["commit"]["graph_commit_id"] in lines[0]
        assert '"event":"denied"' in lines[1]


def _read_metrics(port: int) -> str:
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=600) as answer:
        return answer.read().decode()


def _start_export(server) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((server.host, server.port))
    client.sendall(
        f"POST {server.graph}/export HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode()
    )
    assert client.recv(64).startswith(b"HTTP/1.1 200")
    return client


def _read_all(client: socket.socket) -> bytes:
    said = b""
    try:
        while piece := client.recv(1 << 20):
            said = (said + piece)[-100:]
    except ConnectionResetError:
        pass
    return said
