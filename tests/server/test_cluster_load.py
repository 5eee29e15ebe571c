"""Requests to a served cluster while an operator applies and reloads."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import omnigraph
from server.cluster_files import (
    GRAPH_RULES,
    NAMES,
    TOKENS,
    ClusterFolder,
    count_query,
    serving_cluster,
)
from server.load_clients import BROKEN, READ, WRITE, Client
from server.serving import PEOPLE, SCHEMA, Server

LONG_S = float(os.environ.get("OMNIGRAPH_TEST_CLUSTER_SECONDS", "60"))
CLIENTS, MANY_CLIENTS = 4, 12
TOKEN = {"Authorization": f"Bearer {TOKENS['maria']}"}


def test_no_request_fails_while_an_operator_applies_and_reloads(tmp_path: Path) -> None:
    run_under_load(tmp_path, CLIENTS, seconds=0)


@pytest.mark.slow
def test_no_request_fails_in_a_minute_of_applies(tmp_path: Path) -> None:
    run_under_load(tmp_path, MANY_CLIENTS, seconds=LONG_S)


@dataclass
class Watch:
    """Answers to clients; every answer but the right one is stored."""

    wrong: list[object] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    is_over: bool = False

    async def run(self, client: Client, number: int) -> None:
        """Write, read it back and run a stored query, until it is over."""
        turn = 0
        while not self.is_over or not turn:
            name = f"c{number}-{turn}"
            turn += 1
            written = {"query": WRITE, "params": {"name": name}}
            await self._ask(client, "mutate", written)
            self.written.append(name)
            found = await self._ask(client, "query", {"query": READ, "params": {"name": name}})
            if found.get("rows") != [{"name": name, "other": "Ada"}]:
                self.wrong.append((name, found))
            rows = (await self._ask(client, "queries/names", {})).get("rows", [])
            if {"p.name": name} not in rows:
                self.wrong.append((name, len(rows)))
        await client.close()

    async def _ask(self, client: Client, path: str, body: object) -> dict:
        started = time.monotonic()
        try:
            status, answer = await client.post(path, body, TOKEN)
        except BROKEN as error:
            self.wrong.append((path, repr(error)))
            return {}
        self.seconds.append(time.monotonic() - started)
        if status != 200:
            self.wrong.append((path, status, answer))
        return answer


@dataclass
class Operator:
    """Changes each kind of declaration of a cluster in turn."""

    folder: ClusterFolder
    server: Server
    chance: random.Random
    turns: int = 0

    def work(self) -> None:
        """Make one round of changes, each applied and reloaded."""
        self.turns += 1
        new = f"g{self.turns}"
        self.folder.declare_graph(new)
        self.folder.declare_policy("rules", GRAPH_RULES, "people", new)
        self._take_over(lambda: self._serves(new, 200))
        columns = "".join(f"  more{n}: I32?" for n in range(self.turns))
        wider = SCHEMA.replace("age: I32?", f"age: I32?{columns}")
        queries = NAMES + count_query(f"count_{self.turns}")
        self.folder.declare_graph("people", queries, wider)
        self._take_over(lambda: self._runs(f"count_{self.turns}"))
        self.folder.declare_policy("rules", GRAPH_RULES, "people")
        self.folder.delete_graph(new)
        self._take_over(lambda: self._serves(new, 404))

    def _take_over(self, has_come) -> None:
        self.folder.apply()
        if self.chance.random() < 0.5:
            self.server.signal(signal.SIGHUP)
        deadline = time.monotonic() + 120
        while not has_come():
            assert time.monotonic() < deadline, "it was not taken over"
            time.sleep(0.05)

    def _serves(self, graph_id: str, status: int) -> bool:
        return self.server.get(f"/graphs/{graph_id}/schema").status == status

    def _runs(self, query: str) -> bool:
        return self.server.post(f"queries/{query}", {}).status == 200


def run_under_load(tmp_path: Path, clients: int, seconds: float) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    folder = ClusterFolder(tmp_path / "town")
    folder.declare_graph("people")
    folder.declare_policy("rules", GRAPH_RULES, "people")
    folder.apply()
    place = folder.path / "graphs" / "people.omni"
    with omnigraph.open(place) as graph:
        graph.load(PEOPLE, "append")
    given = {"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": str(clients), "OMNIGRAPH_LOG": "warning"}
    with serving_cluster(folder.path, "--workers", "2", poll="0.2", **given) as server:
        operator = Operator(folder, server, random.Random(seed))
        watch = asyncio.run(_live(server, operator, clients, seconds))
        log = server.log
    ordered = sorted(watch.seconds)
    print(
        f"{len(ordered)} requests, {operator.turns} rounds of 3 applies, "
        f"p50 {ordered[len(ordered) // 2] * 1000:.0f} ms, "
        f"p99 {ordered[len(ordered) * 99 // 100] * 1000:.0f} ms, longest {ordered[-1]:.1f} s"
    )
    assert watch.wrong == []
    assert [line for line in log.splitlines() if "reload refused" in line] == []
    with omnigraph.open(place) as graph:
        assert {row["p.name"] for row in graph.query(NAMES).rows} == {
            "Ada",
            "Ben",
            *watch.written,
        }


async def _live(server: Server, operator: Operator, clients: int, seconds: float) -> Watch:
    watch, until = Watch(), time.monotonic() + seconds
    made = [Client(server.host, server.port, server.graph) for _ in range(clients)]
    clients_done = asyncio.gather(*(watch.run(client, n) for n, client in enumerate(made)))
    try:
        while True:
            await asyncio.to_thread(operator.work)
            if time.monotonic() >= until:
                break
    finally:
        watch.is_over = True
        await clients_done
    return watch
