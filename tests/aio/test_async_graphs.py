"""Graphs for programs with an event loop."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import omnigraph
from aio.async_stub import LEFT_OUT, PAIRS, PLACE, write_stub
from omnigraph.aio import async_graph
from omnigraph.engine_threads import Abandoned, AbortSwitch, CancelledReads, EngineCalls
from omnigraph.errors import BranchNotFound, NotServed
from server.conftest import make_people
from server.serving import ADD, ALL, serving

NAMES = ["Ada", "Ben"]


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return make_people(tmp_path_factory.mktemp("people") / "people.omni")


@pytest.fixture(scope="module")
def url(people):
    with serving(people) as server:
        yield f"http://{server.address}{server.graph}"


@pytest.fixture(params=["open", "connect"])
def opening(request: pytest.FixtureRequest):
    """Opens the same graph, in storage or behind a server."""
    name = "people" if request.param == "open" else "url"
    place = request.getfixturevalue(name)

    @asynccontextmanager
    async def opened() -> AsyncIterator[omnigraph.aio.AsyncGraph]:
        async with await getattr(omnigraph.aio, request.param)(place) as graph:
            yield graph

    return opened


def test_the_stub_is_that_of_the_verbs_there_are() -> None:
    assert PLACE.read_text() == write_stub(), "run python tests/aio/async_stub.py"


def test_every_name_that_is_treated_apart_is_one_of_a_graph() -> None:
    runtime: Any = async_graph
    known = set().union(*(dir(embedded) for embedded in PAIRS.values()))
    assert known >= runtime.list_writes() | LEFT_OUT
    pairs: dict[Any, type] = dict(PAIRS)
    for kind, embedded in pairs.items():
        assert {*dir(embedded), "stat", "range"} >= kind.PLAIN | kind.ITERATED


def test_verbs_are_coroutines_with_the_same_results(opening) -> None:
    async def use() -> None:
        async with opening() as graph:
            assert inspect.iscoroutinefunction(type(graph).close)
            found = await graph.query(ALL)
            assert [row["p.name"] for row in found.rows][:2] == NAMES
            assert "node Person" in await graph.schema
            assert await graph.branches() == ["main"]
            branch = graph.branch("review")
            await graph.create_branch("review")
            done = await branch.mutate(ADD, params={"name": "Zoe"})
            assert done.commit == (await branch.commits())[0]
            view = await graph.at("review")
            assert len(await view.query(ALL)) == len(found) + 1
            assert [one["data"]["id"] async for one in graph.export(["Knows"])] == ["k1"]
            blob = await graph.read_blob("Person", "Ada", "photo")
            assert (await blob.read(), blob.size, len(blob)) == (b"pixels", 6, 6)
            assert [piece async for piece in blob.chunks(4)] == [b"pixe", b"ls"]
            baseline = await graph.baseline()
            assert len([one async for one in baseline.records()]) == len(found) + 1
            assert (await graph.changes(baseline.resume_cursor)).caught_up
            rows = 0
            async for batch in graph.query_batches(ALL):
                rows += batch.num_rows
            assert rows == len(found)
            with pytest.raises(BranchNotFound):
                await graph.query(ALL, branch="nowhere")
            await graph.delete_branch("review")

    asyncio.run(use())


def test_a_verb_of_storage_alone_is_refused_by_name(url) -> None:
    async def use() -> None:
        async with await omnigraph.aio.connect(url) as graph:
            with pytest.raises(NotServed):
                await graph.optimize()
            unknown: Any = graph
            with pytest.raises(AttributeError):
                await unknown.no_such_thing()

    asyncio.run(use())


def test_rows_and_differences_are_awaited(opening) -> None:
    async def use() -> None:
        async with opening() as graph:
            rows = await graph.nodes("Person")
            assert len(rows) == (await rows.to_arrow()).num_rows
            assert sum([one.num_rows async for one in rows.batches()]) == len(rows)
            difference = await graph.diff("1", "2")
            assert len([one async for one in difference]) == 3
            assert (await difference.stats)["Person"].inserted == 2
            assert set(await difference.to_arrow()) == {"Person", "Knows"}
            assert (await graph.lint(ALL)).status == "ok"

    asyncio.run(use())


def test_the_loop_continues_while_the_engine_works() -> None:
    async def use() -> None:
        calls, may_end = EngineCalls(), threading.Event()
        working = asyncio.create_task(calls.read(may_end.wait))
        await asyncio.sleep(0)
        may_end.set()  # by the loop, which the work does not hold up
        assert await working
        calls.stop()

    asyncio.run(use())


def test_a_query_ends_when_its_task_is_cancelled() -> None:
    async def use() -> None:
        calls, switch = EngineCalls(), AbortSwitch()
        began, ended = threading.Event(), threading.Event()

        def work() -> None:
            limits = CancelledReads(switch)
            began.set()
            try:
                while True:
                    limits.check()
            except Abandoned:
                ended.set()
                raise

        task = asyncio.create_task(calls.read(work, switch))
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(ended.wait, 170)
        calls.stop()

    asyncio.run(use())


def test_an_embedded_query_is_given_what_ends_it(people, monkeypatch) -> None:
    given = []
    real = omnigraph.Graph.query

    def query(self, *args, **more):
        given.append(more["limits"])
        return real(self, *args, **more)

    monkeypatch.setattr(omnigraph.Graph, "query", query)

    async def use() -> None:
        async with await omnigraph.aio.open(people) as graph:
            await graph.query(ALL)

    asyncio.run(use())
    assert isinstance(given[0], CancelledReads)


def test_a_request_to_a_server_ends_when_its_task_is_cancelled() -> None:
    async def use() -> None:
        left = asyncio.Event()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            arrived.set()
            while await reader.read(100):  # never answers; ends when the client leaves
                pass
            left.set()
            writer.close()

        arrived = asyncio.Event()
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        graph = await omnigraph.aio.connect(f"http://127.0.0.1:{port}/graphs/g")
        task = asyncio.create_task(graph.branches())
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(170):
            await left.wait()
        server.close()
        await graph.close()

    asyncio.run(use())


def test_a_write_is_finished_although_its_task_is_cancelled() -> None:
    async def use() -> None:
        calls, began, may_end, ended = EngineCalls(), *(threading.Event() for _ in range(3))

        def work() -> None:
            began.set()
            may_end.wait()
            ended.set()

        task = asyncio.create_task(calls.write(work))
        await asyncio.to_thread(began.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        may_end.set()
        assert await asyncio.to_thread(ended.wait, 170)
        calls.stop()

    asyncio.run(use())


def test_importing_it_loads_neither_the_engine_nor_an_http_client() -> None:
    slow = "{'lance', 'urllib3', 'starlette'}"
    code = f"import omnigraph.aio, sys; assert not {slow} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
