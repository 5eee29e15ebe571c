"""`@key` and `@unique`: no two rows with the same values."""

import math
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constraints.small_graph import SmallGraph, arrow_rows, catalog_of
from omnigraph.constraints.table_changes import TableChange
from omnigraph.constraints.unique_keys import encode_tuples
from omnigraph.errors import ViolationKind

PERSON = "node Person { name: String @key  email: String? @unique  age: I32? }"


def people(**emails):
    return [{"name": name, "email": email} for name, email in emails.items()]


def committed_people(**emails):
    return SmallGraph.of(PERSON, {"node:Person": people(**emails)})


# --- within one write ----------------------------------------------------------------------------


def test_two_rows_of_a_write_with_one_value_are_named_with_both_ids():
    graph = SmallGraph.of(PERSON)
    [found] = graph.violations(graph.change("node:Person", *people(ada="x", ben="y", cy="x")))
    assert found.message == "@unique violation on Person.email: value 'x' held by 'ada' and 'cy'"
    assert (found.kind, found.type_key, found.id) == (ViolationKind.UNIQUE, "node:Person", "cy")


def test_every_further_holder_is_reported_against_the_first():
    graph = SmallGraph.of(PERSON)
    change = graph.change("node:Person", *people(d="x", a="y", c="x", b="y", e="x"))
    assert graph.messages(change) == [
        "@unique violation on Person.email: value 'x' held by 'd' and 'c'",
        "@unique violation on Person.email: value 'y' held by 'a' and 'b'",
        "@unique violation on Person.email: value 'x' held by 'd' and 'e'",
    ]


def test_rows_without_a_value_never_collide():
    graph = SmallGraph.of(PERSON, {"node:Person": people(old=None)})
    assert graph.messages(graph.change("node:Person", *people(ada=None, ben=None))) == []


def test_the_empty_text_is_a_value():
    graph = committed_people(old="")
    assert graph.messages(graph.change("node:Person", *people(ada=""))) == [
        "@unique violation on Person.email: value '' held by 'old' and 'ada'"
    ]


def test_a_key_given_twice_in_one_input_is_a_violation_even_with_one_id():
    graph = SmallGraph.of(PERSON)
    change = graph.change("node:Person", {"name": "new"}, {"name": "new"})
    assert graph.messages(change) == ["@unique violation on Person.name: value 'new' given twice"]


def test_a_key_that_is_there_already_is_a_replacement():
    graph = committed_people(ada="x")
    assert graph.messages(graph.change("node:Person", *people(ada="z"))) == []


def test_a_composite_key_given_twice_is_a_violation():
    graph = SmallGraph.of("node Take { studio: String  number: U32  @key(studio, number) }")
    rows = [
        {"studio": "b", "number": 7},
        {"studio": "b", "number": 8},
        {"studio": "b", "number": 7},
    ]
    assert graph.messages(graph.change("node:Take", *rows)) == [
        "@unique violation on Take.(number, studio): value '(7, b)' given twice"
    ]


# --- against committed rows ----------------------------------------------------------------------


def test_a_value_of_another_committed_row_is_a_duplicate():
    graph = committed_people(ada="x", ben="y")
    [found] = graph.violations(graph.change("node:Person", *people(cy="y")))
    assert found.message == "@unique violation on Person.email: value 'y' held by 'ben' and 'cy'"
    assert found.id == "cy"


def test_a_row_may_keep_its_own_value():
    graph = committed_people(ada="x")
    assert (
        graph.messages(graph.change("node:Person", {"name": "ada", "email": "x", "age": 3})) == []
    )


def test_a_value_released_in_the_same_write_can_be_used_again():
    graph = committed_people(ada="x")
    assert graph.messages(graph.change("node:Person", *people(ada="z", ben="x"))) == []


def test_a_value_released_by_making_it_null_can_be_used_again():
    graph = committed_people(ada="x")
    assert graph.messages(graph.change("node:Person", *people(ada=None, ben="x"))) == []


def test_two_rows_may_swap_their_values():
    graph = committed_people(ada="x", ben="y")
    assert graph.messages(graph.change("node:Person", *people(ada="y", ben="x"))) == []


def test_a_value_of_a_deleted_row_can_be_used_again():
    graph = committed_people(ada="x")
    assert graph.messages(graph.change("node:Person", *people(ben="x"), deleted=["ada"])) == []


def test_a_table_that_is_replaced_has_no_other_rows():
    graph = committed_people(ada="x", ben="y")
    assert graph.messages(graph.replacing_all("node:Person", *people(cy="x"))) == []
    assert graph.messages(graph.replacing_all("node:Person", *people(cy="x", dee="x"))) == [
        "@unique violation on Person.email: value 'x' held by 'cy' and 'dee'"
    ]


def test_a_write_can_collide_with_itself_and_with_a_committed_row():
    graph = committed_people(old="x")
    assert graph.messages(graph.change("node:Person", *people(ada="x", ben="x"))) == [
        "@unique violation on Person.email: value 'x' held by 'ada' and 'ben'",
        "@unique violation on Person.email: value 'x' held by 'old' and 'ada'",
        "@unique violation on Person.email: value 'x' held by 'old' and 'ben'",
    ]


def test_the_holder_named_is_the_first_by_id():
    graph = committed_people(c="x", a="x", b="x")
    assert graph.messages(graph.change("node:Person", *people(z="x"))) == [
        "@unique violation on Person.email: value 'x' held by 'a' and 'z'"
    ]


def test_deleting_alone_collides_with_nothing():
    graph = committed_people(a="x", b="x")
    assert graph.messages(graph.change("node:Person", deleted=["a"])) == []


# --- tuples --------------------------------------------------------------------------------------

PLACE = "node Place { street: String?  house: I32?  @unique(street, house) }"


def place(id, street, house):
    return {"id": id, "street": street, "house": house}


def test_a_tuple_is_shown_in_the_order_of_its_column_names():
    graph = SmallGraph.of(PLACE, {"node:Place": [place("a", "Elm", 3)]})
    assert graph.messages(graph.change("node:Place", place("b", "Elm", 3))) == [
        "@unique violation on Place.(house, street): value '(3, Elm)' held by 'a' and 'b'"
    ]


def test_tuples_that_differ_in_one_member_do_not_collide():
    graph = SmallGraph.of(PLACE, {"node:Place": [place("a", "Elm", 3)]})
    change = graph.change("node:Place", place("b", "Elm", 4), place("c", "Oak", 3))
    assert graph.messages(change) == []


@pytest.mark.parametrize(("street", "house"), [("Elm", None), (None, 3), (None, None)])
def test_a_null_in_any_member_exempts_the_row(street, house):
    committed = [place("a", street, house), place("b", "Oak", 9)]
    graph = SmallGraph.of(PLACE, {"node:Place": committed})
    change = graph.change("node:Place", place("c", street, house), place("d", street, house))
    assert graph.messages(change) == []


def test_rows_with_nulls_do_not_hide_those_without():
    committed = [place("a", "Elm", None), place("b", "Elm", 3)]
    graph = SmallGraph.of(PLACE, {"node:Place": committed})
    # Two streets and one number: committed rows are found by street, those without a number too.
    rows = [place("c", "Elm", None), place("d", "Elm", 3), place("e", "Oak", 3)]
    assert graph.messages(graph.change("node:Place", *rows)) == [
        "@unique violation on Place.(house, street): value '(3, Elm)' held by 'b' and 'd'"
    ]


PAIR = "node Pair { a: String?  b: String?  @unique(a, b) }"
TRICKY = st.text(alphabet=["\x1f", "|", ",", "x", "\x00"], max_size=4)


LOOKALIKES = [("x\x1f|x", "x"), ("x", "x\x1f|x"), ("x\x1f", "|x"), ("x", "\x1f|x"), ("x\x1f|", "x")]


@given(pairs=st.lists(st.tuples(TRICKY, TRICKY), min_size=2, max_size=8, unique=True))
@example(pairs=LOOKALIKES)
@example(pairs=[("\x1f|", ""), ("", "\x1f|"), ("\x1f", "|"), ("|", "\x1f")])
def test_no_characters_make_different_tuples_equal(pairs):
    rows = [{"id": str(i), "a": a, "b": b} for i, (a, b) in enumerate(pairs)]
    empty = SmallGraph.of(PAIR)
    assert empty.messages(empty.change("node:Pair", *rows)) == []
    filled = SmallGraph.of(PAIR, {"node:Pair": rows[:1]})
    assert filled.messages(filled.change("node:Pair", *rows[1:])) == []


@given(pair=st.tuples(TRICKY, TRICKY))
def test_equal_tuples_are_found_whatever_their_characters(pair):
    a, b = pair
    graph = SmallGraph.of(PAIR, {"node:Pair": [{"id": "1", "a": a, "b": b}]})
    assert graph.messages(graph.change("node:Pair", {"id": "2", "a": a, "b": b})) == [
        f"@unique violation on Pair.(a, b): value '({a}, {b})' held by '1' and '2'"
    ]


def test_the_string_of_a_tuple_is_null_with_any_member():
    type_ = catalog_of(PAIR).nodes["Pair"]
    rows = [{"id": "1", "a": "x", "b": "y"}, {"id": "2", "a": None, "b": "y"}]
    strings = encode_tuples(type_, arrow_rows(type_, rows), type_.constraints[0])
    assert [text is None for text in strings.to_pylist()] == [False, True]


def test_several_rules_of_a_type_are_reported_one_after_the_other():
    graph = SmallGraph.of("node T { k: I32 @key  b: I32? @unique  a: I32? @unique }")
    rows = [{"k": 1, "a": 1, "b": 1}, {"k": 2, "a": 1, "b": 1}, {"k": 1}]
    assert graph.messages(graph.change("node:T", *rows)) == [
        "@unique violation on T.k: value '1' given twice",
        "@unique violation on T.a: value '1' held by '1' and '2'",
        "@unique violation on T.b: value '1' held by '1' and '2'",
    ]


# --- edges ---------------------------------------------------------------------------------------

KNOWS = """
node P { name: String @key }
edge Knows: P -> P { note: String? @unique  @unique(src, dst) }
"""
NODES = {"node:P": [{"name": n} for n in "abc"]}


def knows(id, src, dst, note=None):
    return {"id": id, "src": src, "dst": dst, "note": note}


def test_parallel_edges_break_uniqueness_of_their_ends():
    graph = SmallGraph.of(KNOWS, NODES | {"edge:Knows": [knows("1", "a", "b")]})
    change = graph.change("edge:Knows", knows("2", "a", "b"), knows("3", "b", "a"))
    assert graph.messages(change) == [
        "@unique violation on Knows.(dst, src): value '(b, a)' held by '1' and '2'"
    ]


def test_a_moved_edge_makes_room():
    graph = SmallGraph.of(KNOWS, NODES | {"edge:Knows": [knows("1", "a", "b")]})
    change = graph.change("edge:Knows", knows("1", "a", "c"), knows("2", "a", "b"))
    assert graph.messages(change) == []


def test_a_property_of_an_edge_can_be_unique():
    graph = SmallGraph.of(KNOWS, NODES | {"edge:Knows": [knows("1", "a", "b", "n")]})
    assert graph.messages(graph.change("edge:Knows", knows("2", "b", "c", "n"))) == [
        "@unique violation on Knows.note: value 'n' held by '1' and '2'"
    ]


def test_one_end_of_an_edge_can_be_unique():
    graph = SmallGraph.of("node P {} edge E: P -> P { @unique(dst) }", {"node:P": [{"id": "a"}]})
    change = graph.change("edge:E", {"id": "1", "src": "a", "dst": "a"})
    assert graph.messages(change) == []
    twice = graph.change(
        "edge:E", {"id": "1", "src": "a", "dst": "a"}, {"id": "2", "src": "a", "dst": "a"}
    )
    assert graph.messages(twice) == ["@unique violation on E.dst: value 'a' held by '1' and '2'"]


# --- values of every type ------------------------------------------------------------------------

SHOWN = [
    ("String", "x y", "x y"),
    ("enum(de, jp)", "jp", "jp"),
    ("Bool", True, "true"),
    ("I32", -5, "-5"),
    ("I64", 2**53 + 1, str(2**53 + 1)),
    ("U32", 2**32 - 1, str(2**32 - 1)),
    ("U64", 2**64 - 1, str(2**64 - 1)),
    ("F32", 0.1, "0.1"),
    ("F64", 1e21, "1000000000000000000000"),
    ("Date", date(1979, 3, 1), "3346"),
    ("DateTime", datetime(2024, 6, 1, 12, tzinfo=UTC), "1717243200000"),
]


@pytest.mark.parametrize(("type_name", "value", "shown"), SHOWN)
def test_values_of_every_type_are_compared_and_shown(type_name, value, shown):
    schema = f"node T {{ p: {type_name}? @unique }}"
    graph = SmallGraph.of(schema, {"node:T": [{"id": "1", "p": value}, {"id": "0"}]})
    change = graph.change("node:T", {"id": "2", "p": value}, {"id": "3"})
    assert graph.messages(change) == [
        f"@unique violation on T.p: value '{shown}' held by '1' and '2'"
    ]


@pytest.mark.parametrize(("type_name", "value", "shown"), SHOWN)
def test_values_of_every_type_can_be_in_a_tuple(type_name, value, shown):
    schema = f"node T {{ p: {type_name}? q: I32? @unique(p, q) }}"
    graph = SmallGraph.of(schema, {"node:T": [{"id": "1", "p": value, "q": 1}]})
    change = graph.change(
        "node:T", {"id": "2", "p": value, "q": 1}, {"id": "3", "p": value, "q": 2}
    )
    assert graph.messages(change) == [
        f"@unique violation on T.(p, q): value '({shown}, 1)' held by '1' and '2'"
    ]


def test_neighbours_among_wide_numbers_do_not_collide():
    schema = "node T { p: I64? @unique }"
    graph = SmallGraph.of(schema, {"node:T": [{"id": "1", "p": 2**53}]})
    assert graph.messages(graph.change("node:T", {"id": "2", "p": 2**53 + 1})) == []


@pytest.mark.parametrize("type_name", ["F32", "F64"])
@pytest.mark.parametrize(("old", "new"), [(0.0, -0.0), (-0.0, 0.0)])
def test_zero_is_one_value_whatever_its_sign(type_name, old, new):
    schema = f"node T {{ p: {type_name}? @unique }}"
    expected = ["@unique violation on T.p: value '0' held by '1' and '2'"]
    first, second = {"id": "1", "p": old}, {"id": "2", "p": new}
    empty = SmallGraph.of(schema)
    assert empty.messages(empty.change("node:T", first, second)) == expected
    filled = SmallGraph.of(schema, {"node:T": [first]})
    assert filled.messages(filled.change("node:T", second)) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_cannot_be_distinguished(value):
    schema = "node T { p: F64? q: I32? @unique(p, q) }"
    graph = SmallGraph.of(schema, {"node:T": [{"id": "0", "p": value, "q": 1}]})
    rows = [{"id": "1", "p": value, "q": 1}, {"id": "2", "p": value}, {"id": "3", "p": 1.0, "q": 1}]
    [found] = graph.violations(graph.change("node:T", *rows))
    assert (found.kind, found.id) == (ViolationKind.UNIQUE, "1")
    assert found.message.startswith("@unique violation on T.(p, q): a non-finite number")


def test_rows_in_several_pieces_are_one_table():
    graph = committed_people(old="z")
    type_ = graph.catalog.nodes["Person"]
    pieces = [arrow_rows(type_, people(ada="x")), arrow_rows(type_, people(ben="x", cy="z"))]
    change = TableChange(type_, pa.concat_tables(pieces))
    assert graph.messages(change) == [
        "@unique violation on Person.email: value 'x' held by 'ada' and 'ben'",
        "@unique violation on Person.email: value 'z' held by 'old' and 'cy'",
    ]
