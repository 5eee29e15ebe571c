"""`@range`, `@check` and enums: rules about one value."""

import math
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constraints.small_graph import SmallGraph
from omnigraph.errors import ViolationKind
from omnigraph.types.property import INTEGER_BOUNDS

INTEGERS = {scalar.value: bounds for scalar, bounds in INTEGER_BOUNDS.items()}


def range_messages(type_name, bounds, *values):
    graph = SmallGraph.of(f"node T {{ p: {type_name}? @range(p, {bounds}) }}")
    rows = [{"id": str(i), "p": value} for i, value in enumerate(values)]
    return graph.messages(graph.change("node:T", *rows))


# --- @range --------------------------------------------------------------------------------------


def test_a_value_below_the_minimum_is_named_with_the_bound():
    assert range_messages("I32", "1..10", 0) == ["@range violation on T.p: value 0 < min 1"]


def test_a_value_above_the_maximum_is_named_with_the_bound():
    assert range_messages("F64", "0.0..10.0", 11.0) == [
        "@range violation on T.p: value 11.0 > max 10.0"
    ]


def test_the_bounds_belong_to_the_range():
    assert range_messages("I32", "-3..10", -3, 10) == []
    assert range_messages("F64", "-0.5..10.0", -0.5, 10.0) == []


def test_a_value_that_is_not_there_breaks_no_range():
    assert range_messages("I32", "1..10", None) == []
    assert range_messages("F32", "1.0..10.0", None) == []


@pytest.mark.parametrize("bounds", ["0.0..1.0", "0.0..", "..1.0"])
@pytest.mark.parametrize("type_name", ["F32", "F64"])
def test_nan_is_in_no_range(type_name, bounds):
    assert range_messages(type_name, bounds, math.nan) == ["@range violation on T.p: value is NaN"]


def test_infinity_is_only_within_an_open_range():
    assert range_messages("F64", "0.0..", math.inf) == []
    assert range_messages("F64", "0.0..9.0", math.inf, -math.inf) == [
        "@range violation on T.p: value inf > max 9.0",
        "@range violation on T.p: value -inf < min 0.0",
    ]


def test_a_range_may_be_open_at_either_end():
    assert range_messages("I64", "5..", 4, 2**63 - 1) == [
        "@range violation on T.p: value 4 < min 5"
    ]
    assert range_messages("I64", "..5", 6, -(2**63)) == ["@range violation on T.p: value 6 > max 5"]


def test_violations_of_one_range_follow_the_rows_and_not_the_bounds():
    assert range_messages("I32", "1..3", 4, 0, 2, 5) == [
        "@range violation on T.p: value 4 > max 3",
        "@range violation on T.p: value 0 < min 1",
        "@range violation on T.p: value 5 > max 3",
    ]


def test_wide_whole_numbers_are_not_rounded():
    limit = 2**53
    assert range_messages("I64", f"0..{limit}", limit, limit + 1) == [
        f"@range violation on T.p: value {limit + 1} > max {limit}"
    ]
    assert range_messages("U64", f"{2**64 - 2}..", 2**64 - 3, 2**64 - 2) == [
        f"@range violation on T.p: value {2**64 - 3} < min {2**64 - 2}"
    ]


def test_a_fraction_as_a_bound_of_wide_whole_numbers_is_not_rounded_either():
    bound = f"{2**53}.5"
    assert range_messages("I64", f"..{bound}", 2**53, 2**53 + 1) == [
        f"@range violation on T.p: value {2**53 + 1} > max {bound}"
    ]
    assert range_messages("U64", f"{bound}..", 2**53, 2**53 + 1) == [
        f"@range violation on T.p: value {2**53} < min {bound}"
    ]


def test_a_fraction_as_a_bound_of_whole_numbers_cuts_between_them():
    assert range_messages("I32", "0.5..2.5", 0, 1, 2, 3) == [
        "@range violation on T.p: value 0 < min 0.5",
        "@range violation on T.p: value 3 > max 2.5",
    ]
    assert range_messages("I32", "-2.5..-0.5", -3, -2, -1, 0) == [
        "@range violation on T.p: value -3 < min -2.5",
        "@range violation on T.p: value 0 > max -0.5",
    ]


def test_a_bound_no_value_of_the_type_can_have_allows_or_forbids_all():
    assert range_messages("I32", f"-{2**40}..{2**40}", -(2**31), 2**31 - 1) == []
    assert range_messages("I32", f"{2**40}..", 7, None) == [
        f"@range violation on T.p: value 7 < min {2**40}"
    ]
    assert range_messages("U64", "..-1", 0) == ["@range violation on T.p: value 0 > max -1"]
    assert range_messages("U64", "-1..", 0) == []
    assert range_messages("I64", f"..{2**64}.5", 2**63 - 1) == []


def test_a_narrow_float_is_compared_as_the_number_it_stores():
    stored = 0.10000000149011612
    assert range_messages("F32", "0.0..0.1", 0.1) == [
        f"@range violation on T.p: value {stored} > max 0.1"
    ]
    assert range_messages("F64", "0.0..0.1", 0.1) == []


@given(data=st.data(), type_name=st.sampled_from(sorted(INTEGERS)))
def test_whole_numbers_lie_where_mathematics_puts_them(data, type_name):
    low, high = INTEGERS[type_name]
    edges = st.sampled_from([low, high, 0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1])
    bound = st.one_of(edges, st.integers(low - 5, high + 5)).flatmap(
        lambda n: st.sampled_from([str(n), f"{n}.0", f"{n}.5", f"{n}.000000001"])
    )
    first, second = sorted([data.draw(bound), data.draw(bound)], key=Fraction)
    value = data.draw(st.one_of(edges.filter(lambda n: low <= n <= high), st.integers(low, high)))
    allowed = Fraction(first) <= value <= Fraction(second)
    assert (range_messages(type_name, f"{first}..{second}", value) == []) is allowed


@given(value=st.floats(allow_nan=False), low=st.floats(-1e6, 1e6), width=st.floats(0, 1e6))
@example(value=-0.0, low=0.0, width=0.0)
def test_floats_are_compared_as_floats(value, low, width):
    low_text, high_text = f"{low:.6f}", f"{low + width:.6f}"
    allowed = float(low_text) <= value <= float(high_text)
    assert (range_messages("F64", f"{low_text}..{high_text}", value) == []) is allowed


# --- @check --------------------------------------------------------------------------------------


def check_messages(pattern, *values):
    graph = SmallGraph.of(f'node T {{ p: String? @check(p, "{pattern}") }}')
    rows = [{"id": str(i), "p": value} for i, value in enumerate(values)]
    return graph.messages(graph.change("node:T", *rows))


def test_a_text_that_does_not_match_is_shown_with_the_pattern():
    assert check_messages("^[a-z0-9-]+$", "good-1", "Bad Slug") == [
        "@check violation on T.p: value 'Bad Slug' does not match pattern '^[a-z0-9-]+$'"
    ]


def test_a_pattern_may_match_anywhere_in_the_text():
    assert check_messages("b+", "abba", "b") == []
    assert len(check_messages("b+", "aca", "")) == 2


def test_the_dollar_is_the_end_of_the_text_and_not_of_a_line():
    assert check_messages("^a$", "a") == []
    assert len(check_messages("^a$", "a\n", "a\nb", "b\na")) == 3


def test_a_text_that_is_not_there_breaks_no_check():
    assert check_messages("^a$", None) == []


def test_a_pattern_counts_characters_and_not_bytes():
    assert check_messages("^.{2}$", "éß", "😀b") == []


def test_an_empty_pattern_allows_every_text():
    assert check_messages("", "", "x", None) == []


# --- enums ---------------------------------------------------------------------------------------

ENUMS = """
node T { mood: enum(wild, calm, mild)? }
edge E: T -> T { role: enum(lead, guest) }
"""


def test_a_value_outside_its_enum_is_shown_with_the_members_in_order():
    graph = SmallGraph.of(ENUMS)
    rows = [{"id": "a", "mood": "Calm"}, {"id": "b", "mood": "calm"}, {"id": "c"}]
    assert graph.messages(graph.change("node:T", *rows)) == [
        "invalid enum value 'Calm' for T.mood (expected: calm, mild, wild)"
    ]


def test_an_enum_of_an_edge_is_checked_too():
    graph = SmallGraph.of(ENUMS, {"node:T": [{"id": "a"}]})
    edge = {"id": "1", "src": "a", "dst": "a", "role": "boss"}
    [found] = graph.violations(graph.change("edge:E", edge))
    assert found.message == "invalid enum value 'boss' for E.role (expected: guest, lead)"
    assert (found.kind, found.type_key, found.id) == (ViolationKind.VALUE, "edge:E", "1")


def test_ranges_and_checks_of_an_edge_are_checked_too():
    graph = SmallGraph.of(
        'node T {} edge E: T -> T { n: I32? s: String? @range(n, 1..2) @check(s, "^a") }',
        {"node:T": [{"id": "a"}]},
    )
    edge = {"id": "1", "src": "a", "dst": "a", "n": 3, "s": "b"}
    assert graph.messages(graph.change("edge:E", edge)) == [
        "@range violation on E.n: value 3 > max 2",
        "@check violation on E.s: value 'b' does not match pattern '^a'",
    ]


# --- all of them ---------------------------------------------------------------------------------


def test_values_are_reported_by_rule_then_by_row():
    graph = SmallGraph.of(
        """node T { z: enum(a)?  m: enum(a)?  s: String?  r: I32?  q: I32?
           @check(s, "^a") @range(r, 0..) @range(q, 0..) }"""
    )
    wrong = {"z": "x", "m": "y", "s": "b", "r": -1, "q": -2}
    found = graph.violations(graph.change("node:T", {"id": "2", **wrong}, {"id": "1", **wrong}))
    assert [(v.message.split(":")[0], v.id) for v in found] == [
        (message, id)
        for message in [
            "@range violation on T.q",
            "@range violation on T.r",
            "@check violation on T.s",
            "invalid enum value 'y' for T.m (expected",
            "invalid enum value 'x' for T.z (expected",
        ]
        for id in ["2", "1"]
    ]


def test_only_written_rows_are_checked():
    committed = {"node:T": [{"id": "old", "p": 99}]}
    graph = SmallGraph.of("node T { p: I32? @range(p, 0..1) }", committed)
    assert graph.messages(graph.change("node:T", {"id": "new", "p": 1})) == []
    assert graph.messages(graph.change("node:T", deleted=["old"])) == []


def test_a_violation_knows_its_row_and_where_that_came_from():
    graph = SmallGraph.of("node T { p: I32? @range(p, 0..1) }")
    lines = pa.array([3, 7])
    rows = [{"id": "a", "p": 0}, {"id": "b", "p": 5}]
    change = graph.change("node:T", *rows, lines=lines, file="rows.jsonl")
    [found] = graph.violations(change)
    assert (found.id, found.file, found.line) == ("b", "rows.jsonl", 7)
    assert found.wire() == {
        "kind": "value_constraint_violation",
        "entity_kind": "node",
        "type_name": "T",
        "entity_id": "b",
        "message": "@range violation on T.p: value 5 > max 1",
        "file": "rows.jsonl",
        "line": 7,
    }
