"""Random writes to random graphs: the Arrow rules find what dictionaries and loops find."""

import math

from hypothesis import event, given, settings
from hypothesis import strategies as st

from constraints.naive_rules import Change, NaiveRules
from constraints.small_graph import SmallGraph, catalog_of

SCHEMA = """
node Person {
  name: String @key  age: I64?  mood: enum(calm, wild)?  code: String?
  first: String?  last: String?  rank: F64? @unique  big: U64?
  @range(age, 0..120.5)  @check(code, "^[ab]+$")  @unique(first, last)
  @range(rank, -1.5..)  @range(big, 9007199254740993..18446744073709551614)
}
node City { label: String? @unique }
edge Lives: Person -> City @card(1..2) {
  since: I32?  kind: enum(home, work)?  @unique(src, dst)  @range(since, ..2000)
}
edge Knows: Person -> Person @card(0..2) { note: String? @unique }
edge Twin: City -> City @card(2..) { @unique(dst) }
"""
CATALOG = catalog_of(SCHEMA)

IDS = {
    "node:Person": ["p0", "p1", "p2", "p3"],
    "node:City": ["c0", "c1", "c2"],
    "edge:Lives": ["e0", "e1", "e2", "e3", "e4"],
    "edge:Knows": ["e0", "e1", "e2", "e3", "e4"],
    "edge:Twin": ["e0", "e1", "e2", "e3", "e4"],
}
PEOPLE, CITIES = st.sampled_from(IDS["node:Person"]), st.sampled_from(IDS["node:City"])


def or_null(*values):
    return st.sampled_from([None, None, *values])


PROPERTIES = {
    "node:Person": {
        "age": or_null(-1, 0, 120, 121),
        "mood": or_null("calm", "wild", "odd"),
        "code": or_null("ab", "a\n", "ac", ""),
        "first": or_null("x", "x\x1f|y"),
        "last": or_null("y", "y\x1f|y"),
        "rank": or_null(0.0, -0.0, 1.5, -2.0, 1e300),
        "big": or_null(2**53, 2**53 + 1, 2**63, 2**64 - 2, 2**64 - 1),
    },
    "node:City": {"label": or_null("l", "m")},
    "edge:Lives": {
        "src": PEOPLE,
        "dst": CITIES,
        "since": or_null(1999, 2001),
        "kind": or_null("home", "den"),
    },
    "edge:Knows": {"src": PEOPLE, "dst": PEOPLE, "note": or_null("n", "o")},
    "edge:Twin": {"src": CITIES, "dst": CITIES},
}


@st.composite
def rows_of(draw, key, *, repeats=False):
    """Rows with an id each; the key of a person is the id."""
    ids = draw(st.lists(st.sampled_from(IDS[key]), max_size=5, unique=not repeats))
    rows = [{"id": id, **draw(st.fixed_dictionaries(PROPERTIES[key]))} for id in ids]
    return [row | {"name": row["id"]} for row in rows] if key == "node:Person" else rows


COMMITTED = st.fixed_dictionaries({key: rows_of(key) for key in IDS})


@st.composite
def changes_of(draw, key, committed):
    # Only a file can name one key twice; every other way to a write keeps each id once.
    rows = draw(rows_of(key, repeats=key == "node:Person"))
    written = {row["id"] for row in rows}
    if draw(st.sampled_from([False, False, True])):
        gone = frozenset(row["id"] for row in committed) - written
        return Change(rows, gone, replaces_all=True)
    return Change(rows, draw(st.frozensets(st.sampled_from(IDS[key]), max_size=3)) - written)


@st.composite
def changes(draw, committed):
    chosen = draw(st.sets(st.sampled_from(sorted(IDS)), min_size=1))
    return {key: draw(changes_of(key, committed[key])) for key in sorted(chosen)}


@settings(max_examples=300)
@given(data=st.data(), committed=COMMITTED)
def test_the_rules_agree_with_dictionaries_and_loops(data, committed):
    made = data.draw(changes(committed))
    graph = SmallGraph.of(SCHEMA, committed)
    checked = [
        graph.change(key, *one.rows, deleted=sorted(one.deleted), replaces_all=one.replaces_all)
        for key, one in made.items()
    ]
    found = {(str(v.kind), v.type_key, v.message) for v in graph.violations(*checked)}
    expected = NaiveRules(CATALOG, committed, made).violations()
    for kind in {kind for kind, _, _ in expected}:
        event(kind)
    assert found == expected


@given(value=st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, -1.5, 2**53 + 0.0]))
def test_a_range_of_floats_agrees_with_the_loop(value):
    schema = "node T { p: F64? @range(p, -1.5..9007199254740992.0) }"
    rows = [{"id": "1", "p": value}]
    graph = SmallGraph.of(schema)
    expected = NaiveRules(graph.catalog, {}, {"node:T": Change(rows)}).violations()
    found = graph.violations(graph.change("node:T", *rows))
    assert {(str(v.kind), v.type_key, v.message) for v in found} == expected
