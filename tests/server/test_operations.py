"""Readiness, metrics, log levels, audit lines and traces, for operators."""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.request import urlopen

import omnigraph
from graph.failing_observers import Trouble, observed
from omnigraph.settings import LogLevel, LogLevels, ServerSettings
from server.serving import ADD, ALL, serving
from waiting import wait_until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
RULES = """\
version: 1
groups: { readers: [default] }
rules:
  - { id: read, allow: { actors: { group: readers }, actions: [read] } }
"""


def find_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_the_digest_of_what_is_served_follows_policies_and_queries(people, tmp_path) -> None:
    policy, queries = tmp_path / "p.policy.yaml", tmp_path / "q.gq"
    policy.write_text(RULES)
    queries.write_text(ALL)
    flags = ("--policy", str(policy), "--queries", str(queries))
    with serving(people, flags=flags, token="t", OMNIGRAPH_SERVER_BEARER_TOKEN="t") as server:

        def reload() -> str:
            before = server.get("/readyz").body["state_revision"]
            server.signal(signal.SIGHUP)
            wait_until(lambda: server.get("/readyz").body["state_revision"] > before)
            return server.get("/readyz").body["booted_serving_digest"]

        first = server.get("/readyz").body["booted_serving_digest"]
        assert reload() == first
        policy.write_text(RULES.replace("[read]", "[read, export]"))
        wider = reload()
        queries.write_text(ALL + "\n" + ADD)
        longer = reload()
        assert len({first, wider, longer}) == 3
        policy.write_text(RULES)
        queries.write_text(ALL)
        assert reload() == first


def test_metrics_report_storage_and_waiting_writes(people) -> None:
    class Crash(BaseException):
        """The writer has ended."""

    def crash() -> None:
        raise Crash

    port = find_port()
    flags = ("--unauthenticated", "--metrics-bind", f"127.0.0.1:{port}")

    def read() -> str:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=600) as answer:
            return answer.read().decode()

    with serving(people, flags=flags, OMNIGRAPH_METRICS_INTERVAL_SECONDS="1") as server:
        server.post("query", {"query": ALL})
        assert server.post("mutate", {"query": ADD, "params": {"name": "Cy"}}).status == 200
        somebody = hashlib.sha256(b"anonymous").hexdigest()[:12]
        assert f'omnigraph_writes_in_flight{{actor="{somebody}"}} 0.0' in read()
        wait_until(lambda: "omnigraph_storage_reads_total 0.0" not in read())
        assert "omnigraph_storage_read_bytes_total 0.0" not in read()
        assert "omnigraph_recovery_pending 0.0" in read()
        with observed(Trouble("before", "commit", "*/__manifest*", instead=crash)):
            graph = omnigraph.open(people)
            with suppress(Crash):
                graph.mutate(ADD, params={"name": "Di"})
        wait_until(lambda: "omnigraph_recovery_pending 1.0" in read())
        assert server.post("mutate", {"query": ADD, "params": {"name": "Ed"}}).status == 200
        wait_until(lambda: "omnigraph_recovery_pending 0.0" in read())


def test_a_part_of_the_log_may_have_a_level_of_its_own(people) -> None:
    given = {"OMNIGRAPH_LOG": "info,omnigraph.request=warning"}
    levels = ServerSettings.from_environment(given).log_levels
    assert levels == LogLevels(LogLevel.INFO, (("omnigraph.request", LogLevel.WARNING),))
    assert str(levels) == given["OMNIGRAPH_LOG"]
    with serving(people, **given) as server:
        server.post("query", {"query": ALL})
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert "draining" in server.log
        assert "policy decision" not in server.log


def test_a_denial_and_every_kind_of_write_leave_a_line_in_the_audit_file(people, tmp_path) -> None:
    audit = tmp_path / "audit.jsonl"
    with serving(people, OMNIGRAPH_AUDIT_FILE=str(audit)) as server:
        server.post("mutate", {"query": ADD, "params": {"name": "secret-name"}})
        server.post("branches", {"name": "side"})
        server.post("branches/rename", {"name": "side", "new_name": "other"})
        server.post("tags", {"name": "v1"})
        server.post("revert", {"commit": "main"})
        server.ask("DELETE", "branches/other")
        server.get("/graphs")
        text = audit.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["operation"] for line in lines] == [
        *("mutate", "createBranch", "renameBranch", "createTag", "revert", "deleteBranch"),
        "listGraphs",
    ]
    assert [line["event"] for line in lines] == ["write"] * 6 + ["denied"]
    assert all(line["request_id"] and line["at"] for line in lines)
    assert "secret-name" not in text
    assert audit.stat().st_mode & 0o077 == 0


@contextmanager
def collecting() -> Iterator[tuple[str, list[bytes]]]:
    """A collector of traces: its address, and what it was sent."""
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing is printed."""

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            thread.join()


def test_every_request_is_a_span_of_the_trace_its_client_began(people) -> None:
    with collecting() as (address, bodies):
        given = {"OTEL_EXPORTER_OTLP_ENDPOINT": address}
        with serving(people, **given) as server:
            headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
            server.post("query", {"query": ALL}, headers=headers)
            server.post("mutate", {"query": ADD, "params": {"name": "secret-name"}})
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
        sent = b"".join(bodies)
    for said in (b"omnigraph", b"query", b"mutate", bytes.fromhex(TRACE), b"omnigraph.graph"):
        assert said in sent
    assert b"secret-name" not in sent
