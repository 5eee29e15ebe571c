"""The rules on a small music graph, written out case by case."""

import pytest

from constraints.small_graph import SmallGraph

SCHEMA = """
node Label  { slug: String @key  name: String?  country: enum(de, jp, uk, us)? }
node Artist { slug: String @key  name: String?  born: I32?  @range(born, 1900..2020) }
node Album  {
  slug: String @key  rating: F64?  plays: U64?
  @range(rating, 0.0..10.0)  @check(slug, "^[a-z0-9-]+$") }
node Take { studio: String  number: U32  seconds: F32?  @key(studio, number) }
edge SignedTo: Artist -> Label @card(0..1) { advance: I32? }
edge Made: Artist -> Album { role: enum(guest, lead)?  @unique(src, dst) }
edge Influences: Artist -> Artist { weight: F64? }
"""


def edges(prefix, *pairs):
    made = [pair.split("→") for pair in pairs]
    return [{"id": f"{prefix}{i}", "src": s, "dst": d} for i, (s, d) in enumerate(made)]


COMMITTED = {
    "node:Label": [{"slug": s} for s in ["wave", "nova", "drift"]],
    "node:Artist": [{"slug": s} for s in ["ada", "ben", "cy", "dee", "fay"]],
    "node:Album": [{"slug": s} for s in ["tides", "embers", "tidal", "static"]],
    "edge:SignedTo": edges("s", "ada→wave", "ben→nova", "fay→wave"),
    "edge:Made": edges("m", "ada→tides", "ada→embers", "ben→embers", "fay→tidal", "cy→static"),
    "edge:Influences": edges("i", "ada→ben", "ben→cy", "cy→ada", "ada→ben", "dee→dee", "dee→fay"),
}


@pytest.fixture
def graph():
    return SmallGraph.of(SCHEMA, COMMITTED)


def test_a_node_and_an_edge_to_it_in_one_write(graph):
    gil = graph.change("node:Artist", {"slug": "gil", "name": "Gil"})
    edge = {"id": "new", "src": "gil", "dst": "ada"}
    assert graph.messages(gil, graph.change("edge:Influences", edge)) == []
    ghost = graph.change("edge:Influences", edge | {"dst": "ghost"})
    assert graph.messages(gil, ghost) == ["dst 'ghost' not found in Artist"]


def test_a_second_label_for_an_artist(graph):
    second = graph.change("edge:SignedTo", {"id": "new", "src": "ada", "dst": "nova"})
    assert graph.messages(second) == [
        "@card violation on edge SignedTo: source 'ada' has 2 edges (max 1)"
    ]


def test_the_same_album_created_twice(graph):
    again = graph.change("edge:Made", {"id": "new", "src": "ada", "dst": "tides"})
    assert graph.messages(again) == [
        "@unique violation on Made.(dst, src): value '(tides, ada)' held by 'm0' and 'new'"
    ]


def test_a_rating_beyond_the_scale(graph):
    assert graph.messages(graph.change("node:Album", {"slug": "a", "rating": 11.0})) == [
        "@range violation on Album.rating: value 11.0 > max 10.0"
    ]


def test_a_slug_with_a_space(graph):
    assert graph.messages(graph.change("node:Album", {"slug": "Bad Slug"})) == [
        "@check violation on Album.slug: value 'Bad Slug' does not match pattern '^[a-z0-9-]+$'"
    ]


def test_an_undeclared_role(graph):
    made = {"id": "new", "src": "dee", "dst": "tides", "role": "boss"}
    assert graph.messages(graph.change("edge:Made", made)) == [
        "invalid enum value 'boss' for Made.role (expected: guest, lead)"
    ]


def test_writing_a_composite_key_again_replaces(graph):
    take = {"studio": "b", "number": 7}
    filled = SmallGraph.of(SCHEMA, COMMITTED | {"node:Take": [take]})
    assert filled.tables["node:Take"].column("id").to_pylist() == ['["7","b"]']
    assert filled.messages(filled.change("node:Take", take | {"seconds": 1.0})) == []


def test_deleting_an_artist_with_all_edges(graph):
    changes = [
        graph.change("node:Artist", deleted=["ada"]),
        graph.change("edge:SignedTo", deleted=["s0"]),
        graph.change("edge:Made", deleted=["m0", "m1"]),
        graph.change("edge:Influences", deleted=["i0", "i2", "i3"]),
    ]
    assert graph.messages(*changes) == []
    assert graph.messages(*changes[:-1]) == [
        "src 'ada' not found in Artist",
        "src 'ada' not found in Artist",
        "dst 'ada' not found in Artist",
    ]


def test_replacing_the_labels_but_not_the_edges_to_them(graph):
    labels = graph.replacing_all("node:Label", {"slug": "wave", "name": "W"})
    assert graph.messages(labels) == ["dst 'nova' not found in Label"]
    signed = graph.replacing_all("edge:SignedTo", {"id": "new", "src": "ada", "dst": "wave"})
    assert graph.messages(labels, signed) == []


def test_a_slug_on_two_lines_of_a_file(graph):
    twice = [{"slug": "new"}, {"slug": "new"}]
    expected = ["@unique violation on Artist.slug: value 'new' given twice"]
    assert graph.messages(graph.change("node:Artist", *twice)) == expected
    assert expected[0] in graph.messages(graph.replacing_all("node:Artist", *twice))
