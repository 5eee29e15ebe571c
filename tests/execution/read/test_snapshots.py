"""Time travel, branches, and tables with earlier schemas."""

from __future__ import annotations

from dataclasses import replace

import pytest

from execution.read.query_runner import Reading, make_graph
from omnigraph.catalog.catalog import Catalog, NodeType, Property
from omnigraph.errors import BadRequest, TypeNotFound
from omnigraph.execution.read.executor import execute
from omnigraph.execution.read.read_context import TraversalMethod
from omnigraph.graph.graph import open as open_graph
from omnigraph.identity import PropertyId, TableIncarnationId, TypeId
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.types.property import PropertyType, Scalar
from omnigraph.types.to_json import encode_rows

SCHEMA = "node Person { key: String @key  age: I32? }\nedge Knows: Person -> Person"


@pytest.fixture
def uri(tmp_path) -> str:
    path = tmp_path / "g.omni"
    people = [
        {"type": "Person", "data": {"key": key, "age": age}} for key, age in (("a", 1), ("b", 2))
    ]
    graph = make_graph(path, SCHEMA, [*people, {"edge": "Knows", "from": "a", "to": "b"}])
    graph.mutate('query q() { insert Person {key: "c"} insert Knows {from: "a", to: "c"} }')
    return str(path)


def test_an_old_version_is_read_as_it_was(uri):
    reading = Reading(uri)
    query = "match { $p: Person optional { $p knows $x } } return { $p, $x }"
    plan = reading.plan(query)
    newest = reading.views.read_newest("main")
    loaded = reading.views.at_version(newest.snapshot.manifest_version - 1, "main")

    def rows(view):
        return [
            tuple(row.values()) for row in encode_rows(reading.run_plan(plan, view=view).to_arrow())
        ]

    # Twice each, so that what the first kept in memory cannot leak into the second.
    for _ in range(2):
        assert rows(loaded) == [("a", "b"), ("b", None)]
        assert rows(newest) == [("a", "b"), ("a", "c"), ("b", None), ("c", None)]


def test_a_branch_shares_what_is_in_memory_until_it_differs(uri):
    graph, reading = open_graph(uri), Reading(uri, TraversalMethod.ADJACENCY)
    graph.create_branch("side")
    query = "match { $p: Person $p knows $x } return { $p, $x }"
    assert len(reading.rows(query)) == 2
    size = reading.given.topology.size_bytes
    assert size > 0
    assert len(reading.rows(query, branch="side")) == 2
    assert reading.given.topology.size_bytes == size
    graph.branch("side").mutate('query q() { delete Person where key = "c" }')
    assert reading.tuples(query, branch="side") == [("a", "b")]
    assert len(reading.rows(query)) == 2


# --- a catalog that has moved on ------------------------------------------------------------------


def with_person(catalog: Catalog, **changes) -> Catalog:
    person = replace(catalog.nodes["Person"], **changes)
    nodes = {name: node for name, node in catalog.nodes.items() if name != "Person"}
    return replace(catalog, nodes=dict(sorted({**nodes, person.name: person}.items())))


def read(reading: Reading, catalog: Catalog, body: str) -> list[dict[str, object]]:
    plan = compile_plan(SourceText(f"query q() {{ {body} }}", "q"), catalog)
    view = reading.views.read_newest("main")
    return encode_rows(execute(plan, view.snapshot, catalog, reading.given).to_arrow())


def with_property(catalog: Catalog, name: str, type_: PropertyType) -> Catalog:
    added = Property(PropertyId(999), name, type_)
    properties = (*catalog.nodes["Person"].properties, added)
    return with_person(catalog, properties=tuple(sorted(properties, key=lambda p: p.name)))


def test_a_property_that_did_not_exist_reads_as_null(uri):
    reading = Reading(uri)
    catalog = with_property(
        reading.views.read_newest("main").catalog,
        "nick",
        PropertyType(Scalar.STRING, nullable=True),
    )
    rows = read(reading, catalog, "match { $p: Person } return { $p, $p.nick }")
    assert rows == [{"p": key, "p.nick": None} for key in "abc"]
    for condition in ('$p.nick = "x"', 'not ($p.nick = "x")', '$p.nick in ["x"]'):
        assert read(reading, catalog, f"match {{ $p: Person {condition} }} return {{ $p }}") == []
    rows = read(reading, catalog, "match { $p: Person $p.nick is null } return { count($p) as n }")
    assert rows == [{"n": 3}]


def test_a_required_property_that_did_not_exist_is_an_error(uri):
    reading = Reading(uri)
    catalog = with_property(
        reading.views.read_newest("main").catalog, "nick", PropertyType(Scalar.STRING)
    )
    with pytest.raises(BadRequest, match=r"Person\.nick does not exist at this snapshot"):
        read(reading, catalog, "match { $p: Person } return { $p.nick }")
    assert len(read(reading, catalog, "match { $p: Person } return { $p }")) == 3


def test_a_renamed_property_is_found_under_its_old_name(uri):
    reading = Reading(uri)
    known = reading.views.read_newest("main").catalog
    properties = [
        replace(p, name="years") if p.name == "age" else p for p in known.nodes["Person"].properties
    ]
    catalog = with_person(known, properties=tuple(sorted(properties, key=lambda p: p.name)))
    rows = read(reading, catalog, "match { $p: Person $p.years > 1 } return { $p, $p.years }")
    assert rows == [{"p": "b", "p.years": 2}]


def test_a_widened_property_is_read_in_its_wider_type(uri):
    reading = Reading(uri)
    known = reading.views.read_newest("main").catalog
    wide = PropertyType(Scalar.I64, nullable=True)
    properties = [
        replace(p, type=wide) if p.name == "age" else p for p in known.nodes["Person"].properties
    ]
    catalog = with_person(known, properties=tuple(properties))
    body = "match { $p: Person $p.age < 9000000000 } return { $p, $p.age } order { $p.age desc }"
    assert read(reading, catalog, body) == [{"p": "b", "p.age": 2}, {"p": "a", "p.age": 1}]


def test_a_type_the_snapshot_lacks_is_not_found(uri):
    reading = Reading(uri)
    known = reading.views.read_newest("main").catalog
    stranger = NodeType(TypeId(998), TableIncarnationId(1), "Pet", (), ())
    catalog = replace(known, nodes={**known.nodes, "Pet": stranger})
    with pytest.raises(TypeNotFound, match="node:Pet does not exist at this snapshot"):
        read(reading, catalog, "match { $x: Pet } return { $x }")
    again = with_person(known, table_incarnation=TableIncarnationId(997))
    with pytest.raises(TypeNotFound, match="does not exist at this snapshot"):
        read(reading, again, "match { $p: Person } return { $p }")
