"""Two hundred clients at once, while workers are killed, readers stall and bodies stay away."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph
from server.load_clients import Client, Storm
from server.serving import ALL, Server, list_children, serving

CLIENTS = 200
MAX_PEAK_BYTES = 2 << 30
"""More than this no worker may ever take up; one that has just started needs a quarter of it."""
LONG_S = float(os.environ.get("OMNIGRAPH_TEST_STORM_SECONDS", "600"))


@pytest.mark.crash
@pytest.mark.parametrize("workers", [1, 4])
def test_every_acknowledged_write_is_there_after_a_storm_with_kills(people, workers: int) -> None:
    run_storm(people, workers, seconds=0, between_kills=(2, 4))


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("workers", [1, 4])
def test_it_is_so_after_a_long_storm(people, workers: int) -> None:
    run_storm(people, workers, seconds=LONG_S, between_kills=(1, 10))


def run_storm(place, workers: int, seconds: float, between_kills: tuple[float, float]) -> None:
    """All clients write and read at once; of several workers, some are killed at the same time."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    flags = ("--unauthenticated", "--workers", str(workers))
    given = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": str(CLIENTS), "OMNIGRAPH_LOG": "warning"}
    with serving(place, flags=flags, **given) as server:
        storm, peak = asyncio.run(_storm(server, workers, seconds, between_kills, seed))
        assert storm.wrong == []
        assert server.post("query", {"query": ALL}).status == 200
    print(f"{workers} workers: {storm.describe()}; at most {peak >> 20} MiB in a process")
    assert peak < MAX_PEAK_BYTES
    with omnigraph.open(place) as graph:
        names = set(graph.nodes("Person").to_arrow()["name"].to_pylist())
        assert names == {"Ada", "Ben", *storm.acknowledged}
        assert len(storm.acknowledged) == len(set(storm.acknowledged))
        keyed = [one for one in graph.commits() if "request" in one.details]
        assert len(keyed) == len(storm.acknowledged), "a key made two commits"
        assert len(graph.edges("Knows")) == 1 + len(storm.acknowledged)
        assert graph.verify(deep=True).is_sound


async def _storm(
    server: Server, workers: int, seconds: float, between_kills: tuple[float, float], seed: int
) -> tuple[Storm, int]:
    storm, chance = Storm(), random.Random(seed)
    until = time.monotonic() + seconds
    clients = [Client(server.host, server.port, server.graph) for _ in range(CLIENTS)]
    clients_done = asyncio.gather(
        *(storm.run(client, n, 1, until, seed) for n, client in enumerate(clients))
    )
    peak = 0
    while not clients_done.done():
        await asyncio.wait([clients_done], timeout=chance.uniform(*between_kills))
        children = list_children(server.process.pid) if workers > 1 else [server.process.pid]
        peak = max([peak, *map(_read_peak, children)])
        if workers > 1 and children and not clients_done.done():
            with suppress(ProcessLookupError):
                os.kill(chance.choice(children), signal.SIGKILL)
    await clients_done
    return storm, peak


def _read_peak(pid: int) -> int:
    """The most memory a process has held so far."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0  # it was killed since
    found = [int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM")]
    return found[0] if found else 0


def test_stalled_readers_and_half_sent_bodies_block_no_request(people) -> None:
    """More of them than threads, and every other request is answered."""
    records = ({"type": "Person", "data": {"name": f"{n:06}" + "x" * 2_000}} for n in range(5_000))
    with omnigraph.open(people) as graph:
        graph.load(records, "append")
    given = {"OMNIGRAPH_SERVER_READ_THREADS": "2", "OMNIGRAPH_SERVER_WRITE_THREADS": "2"}
    with serving(people, OMNIGRAPH_SERVER_IDLE_SECONDS="600", **given) as server:
        rows = f"GET {server.graph}/rows?entity=node&type=Person HTTP/1.1\r\nHost: x\r\n\r\n"
        half = (
            f"POST {server.graph}/load/ndjson HTTP/1.1\r\nHost: x\r\n"
            "Content-Type: application/x-ndjson\r\nContent-Length: 1000\r\n\r\n{"
        )
        stuck = [_send(server, text) for text in [rows] * 12 + [half] * 12 + ["GET /hea"] * 12]
        try:
            for client in stuck[:12]:
                assert client.recv(32).startswith(b"HTTP/1.1 200")
            storm = asyncio.run(_live_a_little(server))
            assert storm.wrong == []
            assert len(storm.acknowledged) == 10
        finally:
            for client in stuck:
                client.close()


async def _live_a_little(server: Server) -> Storm:
    storm = Storm()
    clients = [Client(server.host, server.port, server.graph) for _ in range(5)]
    await asyncio.gather(*(storm.run(one, n, 2, 0, n) for n, one in enumerate(clients)))
    return storm


def _send(server: Server, text: str) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(120)
    client.connect((server.host, server.port))
    client.sendall(text.encode())
    return client
