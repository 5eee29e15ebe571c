"""Graphs of other libraries: NetworkX in both directions, and what tensors are made of."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

import omnigraph
from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.graph.conversion.graph_formats import list_numeric_columns, number_ends

SCHEMA = """
node Person { name: String @key  age: I32?  height: F64  face: Vector(2)  photo: Blob? }
node City { name: String @key }
edge LivesIn: Person -> City { since: I32 }
"""
RECORDS = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "height": 1.7, "face": [0.5, 0.25]}},
    {"type": "Person", "data": {"name": "Ben", "height": 1.8, "face": [1.5, 2.0]}},
    {"type": "City", "data": {"name": "Oslo"}},
    {"edge": "LivesIn", "from": "Ben", "to": "Oslo", "data": {"id": "e1", "since": 1998}},
]


@pytest.fixture
def graph(tmp_path):
    made = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    made.load(RECORDS, "append")
    return made


def test_a_snapshot_is_a_graph_of_networkx(graph):
    whole = graph.at().to_networkx()
    assert set(whole.nodes) == {("Person", "Ada"), ("Person", "Ben"), ("City", "Oslo")}
    assert whole.nodes["Person", "Ada"] == {
        "type": "Person",
        "id": "Ada",
        "name": "Ada",
        "age": 36,
        "height": 1.7,
        "face": [0.5, 0.25],
    }
    assert list(whole.edges(data=True, keys=True)) == [
        (
            ("Person", "Ben"),
            ("City", "Oslo"),
            "e1",
            {"type": "LivesIn", "id": "e1", "since": 1998},
        )
    ]


def test_edges_bring_the_nodes_at_their_ends(graph):
    assert len(graph.at().to_networkx(["LivesIn"])) == 3
    assert len(graph.at().to_networkx(["City"])) == 1


def test_rows_of_a_query_are_edges_between_two_columns(graph):
    query = (
        "query q() { match { $p: Person  $p livesIn $c } "
        "return { $p.name as who, $c.name as town, $p.height as tall } }"
    )
    pairs = graph.query(query).to_networkx()
    assert list(pairs.edges(data=True)) == [("Ben", "Oslo", {"tall": 1.8})]
    turned = graph.query(query).to_networkx("town", "who")
    assert list(turned.edges()) == [("Oslo", "Ben")]
    with pytest.raises(BadRequest, match="no such column 'x'"):
        graph.query(query).to_networkx("x")


def test_a_graph_of_networkx_is_imported_with_its_types(tmp_path):
    source = networkx.MultiDiGraph()
    source.add_node(1, kind="Person", name="Ada")
    source.add_node(2, kind="Person", name="Ben")
    source.add_node("oslo", kind="City")
    source.add_edge(1, 2, kind="Knows", since=1998)
    source.add_edge(1, "oslo", kind="LivesIn")
    done = omnigraph.import_networkx(
        tmp_path / "g.omni", source, node_type="kind", edge_type="kind"
    )
    assert done.load.nodes == {"City": 1, "Person": 2}
    assert done.load.edges == {"Knows": 1, "LivesIn": 1}
    assert done.lost == ()
    again = done.graph.at().to_networkx()
    assert again.nodes["Person", "1"]["name"] == "Ada"
    assert again.has_edge(("Person", "1"), ("City", "oslo"))


def test_features_of_networkx_without_an_equivalent_are_reported(tmp_path):
    source = networkx.Graph(name="friends")
    source.add_edge("a", "b", weight=0.5)
    done = omnigraph.import_networkx(tmp_path / "g.omni", source)
    assert done.load.edges == {"Edge": 1}
    assert done.lost == (
        "attributes of the whole graph: name",
        "the edges have no direction; they are kept from first to second end",
    )
    with pytest.raises(BadRequest, match="not dict"):
        omnigraph.import_networkx(tmp_path / "h.omni", {})


def test_numbers_and_vectors_without_nulls_become_arrays(graph):
    people, lives = graph.nodes("Person").to_arrow(), graph.edges("LivesIn").to_arrow()
    columns = list_numeric_columns(people)
    assert set(columns) == {"height", "face"}
    np.testing.assert_array_equal(columns["face"], [[0.5, 0.25], [1.5, 2.0]])
    cities = graph.nodes("City").to_arrow()
    ids = [table.column("id").combine_chunks() for table in (people, cities)]
    np.testing.assert_array_equal(number_ends(lives, *ids), [[1], [0]])


def test_a_library_that_is_not_installed_is_named(graph):
    with pytest.raises(MissingPackage, match="'torch', which is not installed"):
        graph.at().to_pyg()
