"""Both ends of an edge exist, after a write as before it."""

import pytest

from constraints.small_graph import SmallGraph
from omnigraph.errors import ViolationKind

SCHEMA = """
node Artist { name: String @key }
node Label { name: String @key }
edge Signed: Artist -> Label
edge Knows: Artist -> Artist
"""
COMMITTED = {
    "node:Artist": [{"name": "ada"}, {"name": "ben"}],
    "node:Label": [{"name": "wave"}, {"name": "nova"}],
    "edge:Signed": [
        {"id": "s1", "src": "ada", "dst": "wave"},
        {"id": "s2", "src": "ben", "dst": "nova"},
    ],
    "edge:Knows": [{"id": "k1", "src": "ada", "dst": "ben"}],
}


@pytest.fixture
def graph():
    return SmallGraph.of(SCHEMA, COMMITTED)


def signed(id, src, dst):
    return {"id": id, "src": src, "dst": dst}


# --- edges of the write --------------------------------------------------------------------------


def test_an_edge_between_committed_nodes_is_fine(graph):
    assert graph.messages(graph.change("edge:Signed", signed("s3", "ada", "nova"))) == []


def test_a_source_that_is_not_there_is_named(graph):
    [found] = graph.violations(graph.change("edge:Signed", signed("s3", "ghost", "nova")))
    assert found.message == "src 'ghost' not found in Artist"
    assert (found.kind, found.type_key, found.id) == (
        ViolationKind.ORPHAN_EDGE,
        "edge:Signed",
        "s3",
    )


def test_a_destination_that_is_not_there_is_named(graph):
    assert graph.messages(graph.change("edge:Signed", signed("s3", "ada", "ghost"))) == [
        "dst 'ghost' not found in Label"
    ]


def test_a_node_of_another_type_is_no_end(graph):
    assert graph.messages(graph.change("edge:Signed", signed("s3", "wave", "ada"))) == [
        "src 'wave' not found in Artist",
        "dst 'ada' not found in Label",
    ]


def test_a_node_of_the_same_write_is_an_end(graph):
    nodes = graph.change("node:Artist", {"name": "gil"})
    edges = graph.change("edge:Knows", signed("k2", "gil", "ada"), signed("k3", "gil", "gil"))
    assert graph.messages(nodes, edges) == []


def test_sources_are_reported_before_destinations_each_by_row(graph):
    rows = [signed("2", "x", "y"), signed("1", "v", "w")]
    assert graph.messages(graph.change("edge:Signed", *rows)) == [
        "src 'x' not found in Artist",
        "src 'v' not found in Artist",
        "dst 'y' not found in Label",
        "dst 'w' not found in Label",
    ]


def test_an_edge_to_a_node_deleted_in_the_same_write_is_refused(graph):
    nodes = graph.change("node:Label", deleted=["nova"])
    edges = graph.change("edge:Signed", signed("s3", "ada", "nova"), deleted=["s2"])
    assert graph.messages(nodes, edges) == ["dst 'nova' not found in Label"]


def test_a_node_that_a_replaced_table_no_longer_has_is_no_end(graph):
    nodes = graph.replacing_all("node:Label", {"name": "wave"})
    edges = graph.change("edge:Signed", signed("s2", "ben", "nova"))
    assert graph.messages(nodes, edges) == ["dst 'nova' not found in Label"]


def test_a_node_that_a_replaced_table_has_is_an_end(graph):
    nodes = graph.replacing_all("node:Label", {"name": "wave"}, {"name": "zest"})
    edges = graph.change("edge:Signed", signed("s2", "ben", "zest"))
    assert graph.messages(nodes, edges) == []


def test_an_id_is_compared_as_it_is_and_never_as_a_pattern(graph):
    assert graph.messages(graph.change("edge:Signed", signed("s3", "a%", "NOVA"))) == [
        "src 'a%' not found in Artist",
        "dst 'NOVA' not found in Label",
    ]


# --- edges that stay -----------------------------------------------------------------------------


def test_a_retained_edge_whose_destination_is_deleted_is_refused(graph):
    [found] = graph.violations(graph.change("node:Label", deleted=["nova"]))
    assert found.message == "dst 'nova' not found in Label"
    assert (found.kind, found.type_key, found.id) == (
        ViolationKind.ORPHAN_EDGE,
        "edge:Signed",
        "s2",
    )


def test_a_retained_edge_whose_source_is_deleted_is_refused_for_every_edge_type(graph):
    assert graph.messages(graph.change("node:Artist", deleted=["ada"])) == [
        "src 'ada' not found in Artist",
        "src 'ada' not found in Artist",
    ]
    found = graph.violations(graph.change("node:Artist", deleted=["ada"]))
    assert [v.id for v in found] == ["k1", "s1"]


def test_a_retained_edge_that_loses_both_ends_is_reported_for_both(graph):
    edges = graph.change("edge:Signed", deleted=["s1", "s2"])
    assert graph.messages(graph.change("node:Artist", deleted=["ada", "ben"]), edges) == [
        "src 'ada' not found in Artist",
        "dst 'ben' not found in Artist",
    ]


def test_deleting_the_edges_along_with_their_node_is_fine(graph):
    nodes = graph.change("node:Artist", deleted=["ada"])
    knows = graph.change("edge:Knows", deleted=["k1"])
    signed_edges = graph.change("edge:Signed", deleted=["s1"])
    assert graph.messages(nodes, knows, signed_edges) == []


def test_an_edge_moved_away_from_a_deleted_node_is_fine(graph):
    nodes = graph.change("node:Label", deleted=["nova"])
    edges = graph.change("edge:Signed", signed("s2", "ben", "wave"))
    assert graph.messages(nodes, edges) == []


def test_replacing_the_edges_too_leaves_none_to_lose_its_end(graph):
    nodes = graph.replacing_all("node:Label", {"name": "wave"})
    edges = graph.replacing_all("edge:Signed", signed("n", "ada", "wave"))
    assert graph.messages(nodes, edges) == []


def test_replacing_nodes_alone_loses_the_edges_of_those_left_out(graph):
    assert graph.messages(graph.replacing_all("node:Label", {"name": "wave"})) == [
        "dst 'nova' not found in Label"
    ]


def test_replacing_a_table_with_nothing_reports_every_retained_edge_in_order(graph):
    found = graph.violations(graph.replacing_all("node:Label"))
    assert [(v.id, v.message) for v in found] == [
        ("s1", "dst 'wave' not found in Label"),
        ("s2", "dst 'nova' not found in Label"),
    ]


def test_rewriting_a_node_keeps_its_edges(graph):
    assert graph.messages(graph.change("node:Label", {"name": "nova"})) == []


def test_deleting_an_unreferenced_node_is_fine():
    graph = SmallGraph.of(SCHEMA, {"node:Artist": [{"name": "ada"}]})
    assert graph.messages(graph.change("node:Artist", deleted=["ada", "never"])) == []


def test_edges_of_the_write_come_before_edges_that_stay(graph):
    nodes = graph.change("node:Label", deleted=["nova"])
    edges = graph.change("edge:Signed", signed("s9", "ada", "ghost"))
    found = graph.violations(nodes, edges)
    assert [(v.id, v.message) for v in found] == [
        ("s9", "dst 'ghost' not found in Label"),
        ("s2", "dst 'nova' not found in Label"),
    ]


def test_a_node_type_and_an_edge_type_may_share_a_name():
    graph = SmallGraph.of(
        "node Likes { name: String @key } edge Likes: Likes -> Likes",
        {"node:Likes": [{"name": "a"}]},
    )
    edge = {"id": "1", "src": "a", "dst": "b"}
    assert graph.messages(graph.change("edge:Likes", edge)) == ["dst 'b' not found in Likes"]
