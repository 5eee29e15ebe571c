"""Writes with an idempotency key: made once, found again, also after a crash."""

from __future__ import annotations

import gzip
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from omnigraph.errors import IdempotencyKeyReused, PreconditionFailed, WriteNotFound
from omnigraph.settings import Settings

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"
ADD = "query add($n: String) { insert Person { name: $n } }"
ADD_B = 'query add_b() { insert Person { name: "b" } }'
PAIR = 'query pair() { insert Person { name: "z" } insert Knows { from: "z", to: "a" } }'


class Crash(BaseException):
    """The process has ended: nothing after this line runs."""


def crash():
    raise Crash


@pytest.fixture
def place(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "a"}}], "append")
    return tmp_path / "g.omni"


def test_a_key_belongs_to_an_actor_and_to_a_request(place) -> None:
    graph = omnigraph.open(place, actor="ada")
    first = graph.mutate(ADD, params={"n": "b"}, idempotency_key="k")
    again = graph.mutate(ADD, params={"n": "b"}, idempotency_key="k")
    assert (again.commit, again.is_replayed, first.is_replayed) == (first.commit, True, False)
    with pytest.raises(IdempotencyKeyReused):
        graph.mutate(ADD, params={"n": "c"}, idempotency_key="k")
    with pytest.raises(IdempotencyKeyReused):
        graph.load([], "merge", idempotency_key="k")
    other = graph.mutate(ADD, params={"n": "c"}, idempotency_key="k", actor="ben")
    assert other.commit != first.commit
    assert graph.find_write("k").commit == first.commit
    assert graph.find_write("k", actor="ben").commit == other.commit
    for missing in ({"idempotency_key": "x"}, {"idempotency_key": "k", "actor": "cy"}):
        with pytest.raises(WriteNotFound):
            graph.find_write(**missing)


def test_a_write_that_changes_nothing_leaves_no_key(place) -> None:
    graph = omnigraph.open(place)
    nothing = 'query q() { delete Person where name = "nobody" }'
    assert graph.mutate(nothing, idempotency_key="k").commit is None
    with pytest.raises(WriteNotFound):
        graph.find_write("k")
    assert graph.mutate(ADD, params={"n": "b"}, idempotency_key="k").commit is not None


def test_loads_and_merges_are_found_with_their_results(place) -> None:
    graph = omnigraph.open(place)
    records = b'{"type": "Person", "data": {"name": "b"}}'
    loads = [graph.load(records, "append", idempotency_key="l") for _ in range(2)]
    assert loads[0].wire() == loads[1].wire()
    with pytest.raises(IdempotencyKeyReused):
        graph.load(records + b"\n" + records, "append", idempotency_key="l")
    graph.create_branch("side")
    graph.mutate(ADD, params={"n": "c"}, branch="side")
    merges = [graph.merge("side", delete_branch=True, idempotency_key="m") for _ in range(2)]
    assert merges[0].wire() == merges[1].wire()
    assert merges[1].is_replayed


def test_changes_of_the_schema_and_undone_commits_are_found_with_their_results(place) -> None:
    graph = omnigraph.open(place)
    wanted = SCHEMA.replace("@key", "@key  age: I32?")
    writes = {
        "s": lambda: graph.apply_schema(wanted, mutations=[ADD_B], idempotency_key="s"),
        "m": lambda: graph.mutate(ADD, params={"n": "c"}, message="c", idempotency_key="m"),
        "r": lambda: graph.revert(graph.find_write("m").commit.commit_id, idempotency_key="r"),
        "t": lambda: graph.restore(graph.find_write("m").commit.commit_id, idempotency_key="t"),
    }
    first = {key: write() for key, write in writes.items()}
    for key, write in writes.items():
        again = write()
        assert again.is_replayed
        assert again.wire() == first[key].wire()
        answer = dict(graph.find_write(key).answer)
        assert "commit" not in answer
        assert answer["branch"] == "main"


def _make_inputs(folder, name: str) -> dict[str, object]:
    """Return one record in every form that can be loaded."""
    record = {"type": "Person", "data": {"name": name}}
    line = json.dumps(record).encode() + b"\n"
    small, packed = folder / "one.jsonl", folder / "many" / "a.jsonl.gz"
    packed.parent.mkdir(exist_ok=True)
    small.write_bytes(line)
    packed.write_bytes(gzip.compress(line, mtime=0))
    return {
        "records": [record],
        "an iterator": iter([record]),
        "bytes": line,
        "a stream": io.BytesIO(line),
        "a file": small,
        "files": [small],
        "a folder": folder / "many",
        "a table": pa.table({"name": [name]}),
        "a batch": pa.record_batch({"name": pa.array([name])}),
        "options": line,
    }


_FORMS = (
    *("records", "an iterator", "bytes", "a stream", "a file", "files", "a folder"),
    *("a table", "a batch", "options"),
)


@pytest.mark.parametrize("form", _FORMS)
def test_a_key_belongs_to_the_input_of_a_load_in_every_form(place, tmp_path, form: str) -> None:
    graph = omnigraph.open(place)
    how = {"type": "Person"} if form in ("a table", "a batch") else {}

    def load(name: str, **more):
        records = _make_inputs(tmp_path, name)[form]
        return graph.load(records, "merge", idempotency_key="k", **how, **more)

    first = load("b")
    assert load("b").commit == first.commit
    with pytest.raises(IdempotencyKeyReused):
        load("b", partial=True) if form == "options" else load("c")
    assert len(graph.nodes("Person")) == 2


def test_an_expected_head_is_checked_once(place) -> None:
    graph = omnigraph.open(place)
    head = graph.commits()[0].commit_id
    first = graph.mutate(ADD, params={"n": "b"}, expected_head=head, idempotency_key="k")
    again = graph.mutate(ADD, params={"n": "b"}, expected_head=head, idempotency_key="k")
    assert again.commit == first.commit
    with pytest.raises(PreconditionFailed):
        graph.mutate(ADD, params={"n": "c"}, expected_head=head, idempotency_key="other")


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_handles_that_race_with_one_key_make_one_commit(place, mode) -> None:
    records, barrier = b'{"type": "Person", "data": {"name": "b"}}', threading.Barrier(6)

    def load(_: int):
        graph = omnigraph.open(place)
        barrier.wait()
        return graph.load(records, mode, idempotency_key="k")

    with ThreadPoolExecutor(6) as threads:
        done = list(threads.map(load, range(6)))
    assert len({one.commit.commit_id for one in done}) == 1
    assert sum(not one.is_replayed for one in done) == 1
    assert len(omnigraph.open(place).commits()) == 3


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_write_that_a_crash_interrupts_is_committed_once_when_it_is_sent_again(
    place, moment
) -> None:
    """Recovery finishes it with its key or undoes it; the next write finds it or makes it."""
    with observed(Trouble(moment, "commit", "*/__manifest*", instead=crash)):
        graph = omnigraph.open(place, settings=Settings(write_concurrency=1))
        with pytest.raises(Crash):
            graph.mutate(PAIR, idempotency_key="k")
    reopened = omnigraph.open(place)
    done = reopened.mutate(PAIR, idempotency_key="k")
    assert done.commit is not None
    assert reopened.find_write("k").commit == done.commit
    assert len(reopened.edges("Knows")) == 1
    keyed = [one for one in reopened.commits() if "request" in one.details]
    assert len(keyed) == 1
