"""One graph object, shared by writers and readers: typed errors only, and no row lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

import omnigraph
from omnigraph.errors import ConflictError, OmniError

SCHEMA = "node Person { name: String @key  age: I32?  note: String? @index }"
UPDATE = "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
READ = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
WRITERS, READERS = 8, 8


def run_threads(works: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_that_share_a_graph_meet_typed_errors_only(tmp_path, record_property):
    share_a_graph(tmp_path, rounds=6, record_property=record_property)


@pytest.mark.slow
def test_threads_that_share_a_graph_for_long_meet_typed_errors_only(tmp_path, record_property):
    share_a_graph(tmp_path, rounds=120, record_property=record_property)


def share_a_graph(tmp_path, rounds: int, record_property) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    people = [{"type": "Person", "data": {"name": f"p{i}", "age": 0}} for i in range(WRITERS)]
    graph.load(people, "append")
    untyped: list[BaseException] = []
    done: Counter[str] = Counter()
    writing = threading.Semaphore(0)
    last = [0] * WRITERS

    def write(number: int) -> None:
        try:
            for age in range(1, rounds + 1):
                while True:
                    try:
                        graph.mutate(UPDATE, params={"n": f"p{number}", "a": age})
                        break
                    except ConflictError:
                        done["lost races"] += 1
                last[number] = age
                done["writes"] += 1
        except BaseException as error:  # noqa: BLE001 - collected for the check below
            untyped.append(error)
        finally:
            writing.release()

    def read(number: int) -> None:
        try:
            while len(finished) < WRITERS:
                before = last[number]
                (row,) = graph.query(READ, params={"n": f"p{number}"}).rows
                assert row["p.age"] >= before, "an acknowledged write is not seen"
                assert graph.query(COUNT).rows == [{"n": WRITERS}]
                done["reads"] += 1
        except BaseException as error:  # noqa: BLE001
            untyped.append(error)

    finished: list[int] = []

    def wait_for_writers() -> None:
        for number in range(WRITERS):
            writing.acquire()
            finished.append(number)

    works: list[Callable[[], None]] = [wait_for_writers]
    works += [lambda n=n: write(n) for n in range(WRITERS)]
    works += [lambda n=n: read(n) for n in range(READERS)]
    run_threads(works)
    for name, count in done.items():
        record_property(name, count)
    print(dict(done))
    assert untyped == []
    ages = [graph.query(READ, params={"n": f"p{n}"}).rows for n in range(WRITERS)]
    assert ages == [[{"p.age": rounds}]] * WRITERS


def test_threads_that_load_and_branch_meet_typed_errors_only(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(3):
                name = f"b{number}-{turn}"
                graph.create_branch(name)
                graph.load([{"type": "Person", "data": {"name": name}}], "append", branch=name)
                graph.load([{"type": "Person", "data": {"name": name}}], "append")
                graph.optimize(branch=name)
                assert graph.query(READ, params={"n": name}, branch=name).rows
                graph.delete_branch(name)
        except OmniError as error:
            if not isinstance(error, ConflictError):
                failures.append(error)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    run_threads([lambda n=n: work(n) for n in range(6)])
    assert failures == []
