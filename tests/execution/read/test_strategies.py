"""The choice of an access path to neighbours, and its change halfway."""

from __future__ import annotations

import threading

import pytest

from execution.read.query_runner import Reading, make_graph
from omnigraph.execution.read.read_context import TraversalMethod
from omnigraph.execution.read.table_reader import Topology
from omnigraph.plan.plan_nodes import Expand
from omnigraph.plan.walk import list_children

SCHEMA = "node P { key: String @key  age: I32? }\nedge Knows: P -> P { since: I32? }"


@pytest.fixture(scope="module")
def star_uri(tmp_path_factory) -> str:
    """`start` knows `hub`, `hub` knows 3,000 leaves, and every leaf knows the next one."""
    leaves = [f"leaf{i:04d}" for i in range(3_000)]
    records: list[dict[str, object]] = [
        {"type": "P", "data": {"key": key, "age": number % 100}}
        for number, key in enumerate(["start", "hub", *leaves])
    ]
    ends = [("start", "hub"), *(("hub", leaf) for leaf in leaves)]
    ends += list(zip(leaves, [*leaves[1:], leaves[0]], strict=True))
    records += [{"edge": "Knows", "from": a, "to": b, "data": {"since": 1}} for a, b in ends]
    path = tmp_path_factory.mktemp("star") / "g.omni"
    make_graph(path, SCHEMA, records)
    return str(path)


def ways(reading: Reading, query: str, params=None) -> tuple[list[str], list]:
    """Return the access path of each expansion of a query, and the rows."""
    result = reading.run(query, params)
    rows = result.to_arrow().to_pylist()
    node, found = result.profile.root, []
    while True:
        if isinstance(node, Expand):
            found.append(str(result.profile.of(node).notes["traversal"]))
        below = list_children(node)
        if not below:
            return found, rows
        node = below[0]


ONE = 'match { $a: P {key: "%s"} $a knows $x } return { $x }'


def test_few_nodes_are_looked_up_and_many_are_walked(star_uri):
    assert ways(Reading(star_uri), ONE % "leaf0001") == (["indexed"], [{"x": "leaf0002"}])
    query = "match { $a knows $x } return { count($x) as n }"
    assert ways(Reading(star_uri), query) == (["adjacency"], [{"n": 6001}])


def test_an_adjacency_at_hand_is_used_for_few_nodes_too(star_uri):
    reading = Reading(star_uri)
    ways(reading, "match { $a knows $x } return { count($x) as n }")
    assert ways(reading, ONE % "leaf0001")[0] == ["adjacency"]


def test_look_ups_that_add_up_are_replaced_by_an_adjacency(star_uri):
    reading = Reading(star_uri)
    seen = [ways(reading, ONE % f"leaf{i:04d}")[0][0] for i in range(30)]
    assert seen[0] == "indexed"
    assert seen[-1] == "adjacency"
    assert seen == sorted(seen, reverse=True)


def test_a_frontier_that_explodes_is_started_over(star_uri):
    query = 'match { $a: P {key: "start"} $a knows{1,3} $x } return { count($x) as n }'
    for _ in range(2):
        assert ways(Reading(star_uri), query) == (["adjacency"], [{"n": 3001}])
    forced = Reading(star_uri, TraversalMethod.INDEXED)
    assert ways(forced, query) == (["indexed"], [{"n": 3001}])
    bound = 'match { $a: P {key: "hub"} $a $w:knows $x $w.since = 1 } return { count($x) as n }'
    for traversal in TraversalMethod:
        assert ways(Reading(star_uri, traversal), bound)[1] == [{"n": 3000}]


def test_readers_share_one_cache_between_threads(star_uri):
    reading = Reading(star_uri)
    query = "match { $a knows $b $b knows $c } return { count($c) as n, sum($b.age) as s }"
    expected = reading.rows(query)
    shared = Reading(star_uri)
    found: list[object] = []

    def read() -> None:
        found.append(shared.rows(query))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


# --- the cache ------------------------------------------------------------------------------------


class Sized:
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def test_the_least_recently_used_entry_is_evicted_first():
    cache = Topology(limit_bytes=100)
    for key in "abcd":
        cache.get((key,), lambda: Sized(25))
    cache.get(("a",), lambda: Sized(0))
    cache.get(("e",), lambda: Sized(25))
    assert [cache.holds((key,)) for key in "abcde"] == [True, False, True, True, True]
    assert cache.size_bytes == 100


def test_an_entry_too_large_to_share_the_cache_is_not_cached():
    cache = Topology(limit_bytes=100)
    assert cache.get(("big",), lambda: Sized(26)).nbytes == 26
    assert not cache.holds(("big",))
    assert cache.size_bytes == 0


def test_an_entry_is_built_once_for_concurrent_requests():
    cache, built, started = Topology(), [], threading.Barrier(6)

    def build() -> Sized:
        built.append(1)
        return Sized(1)

    def ask() -> None:
        started.wait()
        cache.get(("key",), build)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [1]


def test_a_failed_build_can_be_tried_again():
    cache = Topology()

    def fail() -> Sized:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cache.get(("key",), fail)
    assert cache.get(("key",), lambda: Sized(1)).nbytes == 1


def test_a_tiny_cache_changes_no_answer(star_uri):
    from dataclasses import replace

    reading = Reading(star_uri)
    reading.given = replace(reading.given, topology=Topology(limit_bytes=1_000))
    query = (
        "match { $a knows $b $b knows $c $c.age > 50 } return { count($c) as n, max($a.age) as m }"
    )
    expected = Reading(star_uri).rows(query)
    assert reading.rows(query) == expected
    assert reading.given.topology.size_bytes <= 1_000


def test_indices_change_no_answer(star_uri):
    from dataclasses import replace

    import lance

    from execution.read.random_graphs import NewestTables

    queries = [
        ONE % "hub",
        'match { $a: P {key: "leaf0007"} $a <knows>{1,3} $x hops $h } return { $x, $h }',
        'match { $a: P {key: "hub"} $a $w:knows $x $x.age < 3 $w.since = 1 } return { $x, $x.age }',
        "match { $a: P $a.age > 97 $a knows $x } return { $a, $x }",
    ]
    expected = [Reading(star_uri, TraversalMethod.ADJACENCY).tuples(query) for query in queries]
    snapshot = Reading(star_uri).views.read_newest("main").snapshot
    for key, columns in {"node:P": ["id", "key"], "edge:Knows": ["id", "src", "dst"]}.items():
        stored = lance.dataset(snapshot.table(key).location.native_uri)
        for column in columns:
            stored.create_scalar_index(column, "BTREE")
    for traversal in TraversalMethod:
        reading = Reading(star_uri, traversal)
        reading.given = replace(reading.given, topology=NewestTables())
        assert [reading.tuples(query) for query in queries] == expected


def test_rows_changed_and_deleted_are_read_as_they_are_now(tmp_path):
    path = tmp_path / "g.omni"
    people = [{"type": "P", "data": {"key": f"p{i}", "age": i}} for i in range(9)]
    ends = [(i, (i * 5 + 3) % 9) for i in range(9)] + [(i, (i + 1) % 9) for i in range(9)]
    edges = [
        {"edge": "Knows", "from": f"p{a}", "to": f"p{b}", "data": {"since": a}} for a, b in ends
    ]
    graph = make_graph(path, SCHEMA, [*people, *edges])
    graph.mutate("query q() { update P set { age: 100 } where age > 5 }")
    graph.mutate('query q() { delete P where key = "p3" }')
    graph.mutate(
        'query q() { insert P {key: "p10", age: 10} insert Knows {from: "p0", to: "p10"} }'
    )
    there = {f"p{i}": 100 if i > 5 else i for i in range(9) if i != 3} | {"p10": 10}
    pairs = {(f"p{a}", f"p{b}") for a, b in ends} | {("p0", "p10")}
    expected = sorted((a, b, there[b]) for a, b in pairs if a in there and b in there)
    for traversal in TraversalMethod:
        reading = Reading(str(path), traversal)
        query = "match { $a: P $a knows $b } return { $a, $b, $b.age }"
        assert reading.tuples(query) == expected
        query = "match { $a: P $a knows $b $b.age >= 100 } return { count(distinct $b) as n }"
        ends_there = {b for _, b, age in expected if age >= 100}
        assert reading.rows(query) == [{"n": len(ends_there)}]


# --- nodes named by id ----------------------------------------------------------------------------


@pytest.mark.parametrize("traversal", TraversalMethod)
def test_nodes_named_by_id_are_found_however_often_they_are_requested(star_uri, traversal):
    reading = Reading(star_uri, traversal)
    one = "query q($id: String) { match { $a: P { id: $id } } return { $a, $a.age } }"
    some = (
        "query q($ids: [String], $age: I32)"
        " { match { $a: P  $a.id in $ids  $a.age >= $age } return { $a.id as id } }"
    )
    for _ in range(6):
        assert reading.tuples(one, {"id": "leaf0040"}) == [("leaf0040", 42)]
        assert reading.tuples(one, {"id": "nobody"}) == []
        asked = {"ids": ["leaf0041", "nobody", "leaf0003", "leaf0041", "hub"], "age": 5}
        assert reading.column(some, asked) == ["leaf0003", "leaf0041"]
        assert reading.column(some, {"ids": [], "age": 0}) == []
        assert ways(reading, ONE % "leaf0007")[1] == [{"x": "leaf0008"}]


KEYED = "node U { number: U64 @key }\nnode I { number: I32 @key  @range(number, -9..9) }\n"


@pytest.mark.parametrize("traversal", TraversalMethod)
def test_a_key_names_its_node_whatever_the_type_of_the_value(tmp_path, traversal):
    numbers: dict[str, list[int]] = {"U": [0, 7, 2**64 - 1], "I": [-7, 0, 7]}
    records = [{"type": t, "data": {"number": n}} for t, ns in numbers.items() for n in ns]
    make_graph(tmp_path / "g.omni", KEYED, records)
    reading = Reading(str(tmp_path / "g.omni"), traversal)
    for type_, there in numbers.items():
        for given in ("U64", "I32", "F64"):
            one = (
                f"query q($n: {given}) {{ match {{ $a: {type_} $a.number = $n }} return {{ $a }} }}"
            )
            many = one.replace(f"$n: {given}", f"$n: [{given}]").replace("= $n", "in $n")
            for number in (0, 7) if given == "U64" else (-7, 0, 7):
                expected = [str(number)] if number in there else []
                assert reading.column(one, {"n": number}) == expected
                assert reading.column(many, {"n": [number, number, 9]}) == expected
    for text in ("18446744073709551615", "18446744073709551614"):
        found = reading.column(f"match {{ $a: U {{ number: {text} }} }} return {{ $a }}")
        assert found == ([text] if int(text) in numbers["U"] else [])


def test_nodes_named_again_and_again_are_found_in_memory(star_uri):
    reading = Reading(star_uri)
    one = "query q($id: String) { match { $a: P { id: $id } } return { $a.age } }"
    before = reading.given.topology.size_bytes
    assert reading.column(one, {"id": "leaf0001"}) == [3]
    assert reading.given.topology.size_bytes == before
    for _ in range(5):
        assert reading.column(one, {"id": "leaf0002"}) == [4]
    assert reading.given.topology.size_bytes > before


def test_many_edges_found_make_up_for_few_look_ups(star_uri):
    """A hub's edges cost what they are, not what a node has on average."""

    def asked_until_walked(key: str) -> int:
        reading = Reading(star_uri)
        seen = [ways(reading, ONE % key)[0][0] for _ in range(30)]
        return seen.index("adjacency")

    assert asked_until_walked("hub") < asked_until_walked("leaf0001")
