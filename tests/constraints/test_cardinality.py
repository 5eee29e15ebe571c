"""`@card(m..n)`: how many edges leave a node that a write touches."""

import pyarrow as pa
import pytest

from constraints.small_graph import SmallGraph
from omnigraph.errors import ViolationKind

NODES = {
    "node:Artist": [{"name": n} for n in ["ada", "ben", "cy"]],
    "node:Label": [{"name": n} for n in ["wave", "nova", "zest"]],
}


def edge(id, src, dst="wave"):
    return {"id": id, "src": src, "dst": dst}


def labels(bounds, *edges):
    schema = f"""
    node Artist {{ name: String @key }}
    node Label {{ name: String @key }}
    edge Signed: Artist -> Label @card({bounds})
    """
    return SmallGraph.of(schema, NODES | {"edge:Signed": list(edges)})


def message(source, count, problem):
    return f"@card violation on edge Signed: source '{source}' has {count} edges ({problem})"


# --- too many ------------------------------------------------------------------------------------


def test_one_edge_more_than_allowed_is_refused():
    graph = labels("0..1", edge("1", "ada"))
    [found] = graph.violations(graph.change("edge:Signed", edge("2", "ada", "nova")))
    assert found.message == message("ada", 2, "max 1")
    assert (found.kind, found.type_key, found.id) == (
        ViolationKind.CARDINALITY,
        "edge:Signed",
        "2",
    )


def test_as_many_edges_as_allowed_are_fine():
    graph = labels("0..2", edge("1", "ada"))
    assert graph.messages(graph.change("edge:Signed", edge("2", "ada"))) == []


def test_the_edges_of_one_write_count_together():
    graph = labels("0..1")
    change = graph.change("edge:Signed", edge("1", "ada"), edge("2", "ben"), edge("3", "ada"))
    [found] = graph.violations(change)
    assert (found.message, found.id) == (message("ada", 2, "max 1"), "1")


def test_no_edges_at_all_may_be_allowed():
    graph = labels("0..0")
    assert graph.messages(graph.change("edge:Signed", edge("1", "ada"))) == [
        message("ada", 1, "max 0")
    ]


def test_a_rewritten_edge_counts_once():
    graph = labels("0..1", edge("1", "ada"))
    assert graph.messages(graph.change("edge:Signed", edge("1", "ada", "nova"))) == []


def test_a_deleted_edge_makes_room():
    graph = labels("0..1", edge("1", "ada"))
    assert graph.messages(graph.change("edge:Signed", edge("2", "ada"), deleted=["1"])) == []


def test_a_moved_edge_makes_room_and_takes_it():
    graph = labels("0..1", edge("1", "ada"), edge("2", "ben"))
    assert graph.messages(graph.change("edge:Signed", edge("1", "cy"), edge("3", "ada"))) == []
    assert graph.messages(graph.change("edge:Signed", edge("1", "ben"))) == [
        message("ben", 2, "max 1")
    ]


def test_two_edges_may_swap_their_sources():
    graph = labels("1..1", edge("1", "ada"), edge("2", "ben"))
    assert graph.messages(graph.change("edge:Signed", edge("1", "ben"), edge("2", "ada"))) == []


def test_destinations_are_not_counted():
    graph = labels("0..1")
    change = graph.change("edge:Signed", edge("1", "ada"), edge("2", "ben"), edge("3", "cy"))
    assert graph.messages(change) == []


# --- too few -------------------------------------------------------------------------------------


def test_removing_the_last_edge_that_is_needed_is_refused():
    graph = labels("1..", edge("1", "ada"))
    [found] = graph.violations(graph.change("edge:Signed", deleted=["1"]))
    assert found.message == message("ada", 0, "min 1")
    assert found.id is None


def test_moving_the_last_edge_away_is_refused_for_its_old_source():
    graph = labels("1..", edge("1", "ada"))
    assert graph.messages(graph.change("edge:Signed", edge("1", "ben"))) == [
        message("ada", 0, "min 1")
    ]


def test_a_source_must_reach_the_minimum_once_an_edge_is_written():
    graph = labels("2..3")
    assert graph.messages(graph.change("edge:Signed", edge("1", "ada"))) == [
        message("ada", 1, "min 2")
    ]
    assert graph.messages(graph.change("edge:Signed", edge("1", "ada"), edge("2", "ada"))) == []


def test_a_source_that_keeps_enough_edges_may_lose_some():
    graph = labels("1..2", edge("1", "ada"), edge("2", "ada"))
    assert graph.messages(graph.change("edge:Signed", deleted=["2"])) == []


def test_a_node_without_a_written_edge_is_not_checked():
    graph = labels("1..")
    assert graph.messages(graph.change("node:Artist", {"name": "dee"})) == []


def test_a_source_the_write_does_not_touch_is_not_checked():
    graph = labels("0..1", edge("1", "ada"), edge("2", "ada"), edge("3", "ben"))
    assert graph.messages(graph.change("edge:Signed", edge("4", "cy"))) == []


def test_deleting_an_edge_that_is_not_there_touches_nothing():
    graph = labels("1..", edge("1", "ada"))
    assert graph.messages(graph.change("edge:Signed", deleted=["never"])) == []


# --- nodes that go -------------------------------------------------------------------------------


def test_a_deleted_source_needs_no_edges():
    graph = labels("1..", edge("1", "ada"))
    nodes = graph.change("node:Artist", deleted=["ada"])
    assert graph.messages(nodes, graph.change("edge:Signed", deleted=["1"])) == []


def test_deleting_a_destination_can_leave_its_sources_with_too_few():
    graph = labels("1..", edge("1", "ada", "wave"), edge("2", "ben", "wave"), edge("3", "ben"))
    nodes = graph.change("node:Label", deleted=["wave"])
    edges = graph.change("edge:Signed", edge("3", "ben", "nova"), deleted=["1", "2"])
    assert graph.messages(nodes, edges) == [message("ada", 0, "min 1")]


def test_a_destination_called_like_a_deleted_source_does_not_excuse_the_source():
    schema = """
    node A { name: String @key }
    node B { name: String @key }
    edge E: A -> B @card(1..)
    """
    committed = {
        "node:A": [{"name": "x"}],
        "node:B": [{"name": "x"}],
        "edge:E": [edge("1", "x", "x")],
    }
    graph = SmallGraph.of(schema, committed)
    edges = graph.change("edge:E", deleted=["1"])
    assert graph.messages(graph.change("node:B", deleted=["x"]), edges) == [
        "@card violation on edge E: source 'x' has 0 edges (min 1)"
    ]
    assert graph.messages(graph.change("node:A", deleted=["x"]), edges) == []


# --- replaced as a whole -------------------------------------------------------------------------


def test_replacing_all_edges_counts_only_the_new_ones():
    graph = labels("0..1", edge("1", "ada"), edge("2", "ben"))
    assert graph.messages(graph.replacing_all("edge:Signed", edge("3", "ada"))) == []


def test_replacing_all_edges_leaves_old_sources_with_too_few():
    graph = labels("1..", edge("1", "ben"), edge("2", "ada"), edge("3", "cy"))
    assert graph.messages(graph.replacing_all("edge:Signed", edge("1", "cy"))) == [
        message("ada", 0, "min 1"),
        message("ben", 0, "min 1"),
    ]


def test_replacing_all_edges_with_none_is_measured_too():
    graph = labels("1..", edge("1", "ada"))
    assert graph.messages(graph.replacing_all("edge:Signed")) == [message("ada", 0, "min 1")]


def test_replacing_nodes_and_edges_skips_the_nodes_left_out():
    graph = labels("1..", edge("1", "ada"), edge("2", "ben"))
    nodes = graph.replacing_all("node:Artist", {"name": "ben"})
    edges = graph.replacing_all("edge:Signed", edge("2", "ben"))
    assert graph.messages(nodes, edges) == []


# --- order ---------------------------------------------------------------------------------------


def test_sources_are_reported_in_the_order_of_their_ids():
    graph = labels("0..0")
    change = graph.change(
        "edge:Signed", edge("3", "cy"), edge("2", "ben"), edge("1", "ada"), edge("4", "cy")
    )
    found = graph.violations(change)
    assert [(v.message, v.id) for v in found] == [
        (message("ada", 1, "max 0"), "1"),
        (message("ben", 1, "max 0"), "2"),
        (message("cy", 2, "max 0"), "3"),
    ]


def test_a_violation_names_the_line_of_the_first_edge_of_its_source():
    graph = labels("0..1")
    lines = pa.array([10, 20, 30])
    rows = [edge("1", "ben"), edge("2", "ada"), edge("3", "ada")]
    [found] = graph.violations(graph.change("edge:Signed", *rows, lines=lines, file="f"))
    assert (found.id, found.file, found.line) == ("2", "f", 20)


@pytest.mark.parametrize("key", ["node:Artist", "edge:Signed"])
def test_an_empty_change_breaks_nothing(key):
    graph = labels("1..1", edge("1", "ada"))
    assert graph.messages(graph.change(key)) == []
