"""Several processes serve one graph; some of them are killed."""

import http.client
import os
import random
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import omnigraph
from server.serving import ADD, ALL, boot, serving


def list_children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # it has ended meanwhile, or is no process
        if entry.name.isdigit() and int(fields[1]) == pid:
            found.append(int(entry.name))
    return found


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
        _wait_until(lambda: server.log.count("a worker died") == 1)
        _wait_until(lambda: len(set(list_children(server.process.pid)) - set(first)) == 1)
        _wait_until(lambda: _asks_well(server))
        text = _read_metrics(port)
        made = sum(map(float, re.findall(r'commits_total\{operation="mutate"\} ([\d.]+)', text)))
        assert made == 8
        server.signal(signal.SIGHUP)
        _wait_until(lambda: server.log.count("reloaded") >= 2)
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
        assert server.process.stdout.read() == ""
    assert len(omnigraph.open(people).nodes("Person")) == 10


def test_workers_end_with_the_process_that_started_them(people) -> None:
    with serving(people, flags=("--unauthenticated", "--workers", "2")) as server:
        workers = list_children(server.process.pid)
        server.signal(signal.SIGKILL)
        server.wait()
        _wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_workers_that_cannot_start_say_why_once(tmp_path) -> None:
    done = boot("--store", str(tmp_path / "missing.omni"), "--unauthenticated", "--workers", "2")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no graph can be served" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("workers", [2, 4])
def test_every_acknowledged_write_is_there_after_a_storm_with_kills(people, workers: int) -> None:
    """Clients mix reads and keyed writes while workers are killed at random."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    seconds, clients = float(os.environ.get("OMNIGRAPH_TEST_STORM_SECONDS", "60")), 24
    flags = ("--unauthenticated", "--workers", str(workers))
    acknowledged: list[str] = []
    wrong: list[object] = []
    waits: list[float] = []
    with serving(people, flags=flags, OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX="64") as server:
        stop = time.monotonic() + seconds

        def live(number: int) -> None:
            for turn in range(1_000_000):
                if time.monotonic() > stop:
                    return
                name = f"c{number}-{turn}"
                started = time.monotonic()
                if _write_until_known(server, name, stop + 120, wrong):
                    acknowledged.append(name)
                waits.append(time.monotonic() - started)
                _read_own(server, name, wrong)

        threads = [threading.Thread(target=live, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        while time.monotonic() < stop:
            time.sleep(chance.uniform(1, 4))
            children = list_children(server.process.pid)
            if children:
                os.kill(chance.choice(children), signal.SIGKILL)
        for thread in threads:
            thread.join()
    assert wrong == []
    graph = omnigraph.open(people)
    names = set(graph.nodes("Person").to_arrow()["name"].to_pylist())
    assert set(acknowledged) <= names
    assert names - set(acknowledged) == {"Ada", "Ben"}
    assert len(graph.commits()) == len(acknowledged) + 2, "a key made two commits"
    assert graph.verify(deep=True).is_sound
    waits.sort()
    half, most = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    print(f"{len(acknowledged)} writes; p50 {half:.3f} s, p99 {most:.3f} s")


def _write_until_known(server, name: str, until: float, wrong: list) -> bool:
    """Send a write with a key until an answer comes."""
    body = {"query": ADD, "params": {"name": name}}
    while time.monotonic() < until:
        try:
            answer = server.post("mutate", body, headers={"Idempotency-Key": name})
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)
            continue
        if answer.status == 200:
            return True
        if answer.status not in (409, 429, 500, 503):
            wrong.append((name, answer))
            return False
        time.sleep(0.05)
    wrong.append((name, "never answered"))
    return False


def _read_own(server, name: str, wrong: list) -> None:
    query = "query q($n: String) { match { $p: Person  $p.name = $n } return { $p.name } }"
    try:
        answer = server.post("query", {"query": query, "params": {"n": name}})
    except (OSError, http.client.HTTPException):
        return
    if answer.status == 200 and answer.body["row_count"] != 1:
        wrong.append((name, "not read after it was acknowledged"))


def _asks_well(server) -> bool:
    try:
        return server.post("query", {"query": ALL}).status == 200
    except (OSError, http.client.HTTPException):
        return False


def _read_metrics(port: int) -> str:
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return answer.read().decode()


def _wait_until(holds, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
