"""Several processes serve one graph; some of them are killed."""

import http.client
import os
import re
import signal
import socket
from pathlib import Path

import omnigraph
from server.serving import ADD, ALL, boot, list_children, serving
from waiting import wait_until


def test_workers_share_the_graph_die_and_are_replaced(people) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    flags = ("--unauthenticated", "--workers", "2", "--metrics-bind", f"127.0.0.1:{port}")
    with serving(people, flags=flags) as server:
        first = list_children(server.process.pid)
        assert len(first) == 2
        done = [
            server.post("mutate", {"query": ADD, "params": {"name": f"n{n}"}}) for n in range(8)
        ]
        assert {one.status for one in done} == {200}
        assert server.post("query", {"query": ALL}).body["row_count"] == 10
        os.kill(first[0], signal.SIGKILL)
        wait_until(lambda: server.log.count("a worker died") == 1)
        wait_until(lambda: len(set(list_children(server.process.pid)) - set(first)) == 1)
        wait_until(lambda: _asks_well(server))
        text = _read_metrics(port)
        made = sum(map(float, re.findall(r'commits_total\{operation="mutate"\} ([\d.]+)', text)))
        assert made == 8
        server.signal(signal.SIGHUP)
        wait_until(lambda: server.log.count("reloaded") >= 2)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert server.process.stdout.read() == ""
    assert len(omnigraph.open(people).nodes("Person")) == 10


def test_workers_end_with_the_process_that_started_them(people) -> None:
    with serving(people, flags=("--unauthenticated", "--workers", "2")) as server:
        workers = list_children(server.process.pid)
        server.signal(signal.SIGKILL)
        server.wait()
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_workers_that_cannot_start_say_why_once(tmp_path) -> None:
    done = boot("--store", str(tmp_path / "missing.omni"), "--unauthenticated", "--workers", "2")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no graph can be served" in done.stderr
    assert "Traceback" not in done.stderr


def _asks_well(server) -> bool:
    try:
        return server.post("query", {"query": ALL}).status == 200
    except (OSError, http.client.HTTPException):
        return False


def _read_metrics(port: int) -> str:
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=600) as answer:
        return answer.read().decode()
