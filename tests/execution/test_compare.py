"""Comparing columns: numbers as the numbers they are, texts by their bytes, NULL as unknown."""

import math
import operator
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.execution.predicates import compare, is_member
from omnigraph.plan.expressions import Comparator

ORDERED = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}
WIDE = [2**24 + 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1]
WHOLE = [0, 1, -1, 2, *WIDE, *(-n for n in WIDE), 2**31, 2**32, -(2**31) - 1]
FRACTIONS = [0.1, -0.1, 0.5, 2.7, -2.7, 1e300, -1e300, 5e-324, 2.0**64, 2.0**63 + 2048, 2.0**53 + 2]
REAL = [*map(float, WHOLE), *FRACTIONS, -0.0, math.nan, math.inf, -math.inf]


def integers(kind):
    info = np.iinfo(kind.to_pandas_dtype())
    known = [n for n in WHOLE if info.min <= n <= info.max]
    return st.one_of(st.sampled_from(known), st.integers(int(info.min), int(info.max)))


def narrowed(values):
    with np.errstate(over="ignore"):
        return [float(np.float32(v)) for v in values]


NUMBERS = {
    **{kind: integers(kind) for kind in [pa.int32(), pa.int64(), pa.uint32(), pa.uint64()]},
    pa.float32(): st.one_of(st.sampled_from(narrowed(REAL)), st.floats(width=32)),
    pa.float64(): st.one_of(st.sampled_from(REAL), st.floats()),
}
OTHERS = {
    pa.string(): st.one_of(
        st.sampled_from(["", "a", "Z", "é", "\uffff", "😀", "a\x00"]), st.text()
    ),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("ms", "UTC"): st.datetimes(timezones=st.just(UTC)).map(
        lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)
    ),
}


@st.composite
def operands(draw, kinds_left, kinds_right, rows):
    """Two operands, each a column or one value, and what stands on either side in each row."""
    sides = []
    for kinds in (kinds_left, kinds_right):
        kind = draw(st.sampled_from(sorted(kinds, key=str)))
        values = st.one_of(st.none(), kinds[kind], kinds[kind])
        if draw(st.booleans()):
            shown = draw(st.lists(values, min_size=rows, max_size=rows))
            sides.append((pa.array(shown, kind), shown))
        else:
            value = draw(values)
            sides.append((pa.scalar(value, kind), [value] * rows))
    return sides


def expected(op, left, right):
    return [
        None if a is None or b is None else ORDERED[op](a, b)
        for a, b in zip(left, right, strict=True)
    ]


def column(values, kind=None):
    return pa.array(values, kind)


def asked(op, left, right):
    rows = next((len(side) for side in (left, right) if isinstance(side, pa.Array)), 1)
    return compare(op, left, right, rows).to_pylist()


# --- numbers -------------------------------------------------------------------------------------


@given(data=st.data(), op=st.sampled_from(sorted(ORDERED)), rows=st.integers(0, 6))
def test_numbers_of_any_types_compare_as_the_numbers_they_are(data, op, rows):
    (left, shown_left), (right, shown_right) = data.draw(operands(NUMBERS, NUMBERS, rows))
    answer = compare(op, left, right, rows)
    assert answer.type == pa.bool_()
    assert answer.to_pylist() == expected(op, shown_left, shown_right)


@pytest.mark.parametrize("op", sorted(ORDERED))
@pytest.mark.parametrize("left_kind", sorted(NUMBERS, key=str), ids=str)
@pytest.mark.parametrize("right_kind", sorted(NUMBERS, key=str), ids=str)
def test_every_pair_of_notable_numbers_compares_exactly(op, left_kind, right_kind):
    pairs = [(a, b) for a in notable(left_kind) for b in notable(right_kind)]
    left, right = ([pair[i] for pair in pairs] for i in (0, 1))
    answer = compare(op, column(left, left_kind), column(right, right_kind), len(pairs))
    wrong = [
        (a, b, got)
        for a, b, got in zip(left, right, answer.to_pylist(), strict=True)
        if got != exactly(op, a, b)
    ]
    assert wrong == []


def notable(kind):
    if pa.types.is_floating(kind):
        return narrowed(REAL) if kind == pa.float32() else REAL
    info = np.iinfo(kind.to_pandas_dtype())
    return [n for n in WHOLE if info.min <= n <= info.max]


def exactly(op, a, b):
    """The answer by fractions where there are any, by IEEE rules for NaN and infinities."""
    if math.isfinite(a) and math.isfinite(b):
        return ORDERED[op](Fraction(a), Fraction(b))
    return ORDERED[op](float(a), float(b))


def test_a_whole_number_next_to_a_float_is_not_that_float():
    wide = column([2**53 + 1, 2**63 - 1, -(2**63) + 1], pa.int64())
    floats = column([2.0**53, 2.0**63, -(2.0**63)])
    assert asked(Comparator.EQ, wide, floats) == [False, False, False]
    assert asked(Comparator.GT, wide, floats) == [True, False, True]
    unsigned = column([2**63 + 1, 2**64 - 1], pa.uint64())
    assert asked(Comparator.EQ, unsigned, column([2.0**63, 2.0**64])) == [False, False]
    assert asked(Comparator.LT, unsigned, column([2.0**63, 2.0**64])) == [False, True]


def test_a_fraction_is_not_cut_down_to_a_whole_number():
    assert asked(Comparator.EQ, column([2, 3], pa.int32()), pa.scalar(2.7)) == [False, False]
    assert asked(Comparator.LT, column([2, 3], pa.int32()), pa.scalar(2.7)) == [True, False]


def test_a_negative_number_is_below_every_unsigned_one():
    assert asked(Comparator.LT, column([-1], pa.int32()), column([0], pa.uint64())) == [True]
    assert asked(Comparator.EQ, column([-1], pa.int64()), column([2**64 - 1], pa.uint64())) == [
        False
    ]


@pytest.mark.parametrize("kind", sorted(NUMBERS, key=str), ids=str)
def test_nan_is_neither_equal_nor_ordered_but_different(kind):
    number, nan = column([1], kind), pa.scalar(math.nan)
    assert [asked(op, number, nan) for op in ORDERED] == [[op is Comparator.NE] for op in ORDERED]
    assert [asked(op, nan, number) for op in ORDERED] == [[op is Comparator.NE] for op in ORDERED]


def test_zero_has_no_sign():
    assert asked(Comparator.EQ, column([0], pa.uint64()), column([-0.0])) == [True]
    assert asked(Comparator.EQ, column([0.0]), column([-0.0], pa.float32())) == [True]
    assert asked(Comparator.LT, column([-0.0]), column([0], pa.int32())) == [False]


# --- other values --------------------------------------------------------------------------------


@given(
    data=st.data(),
    kind=st.sampled_from(sorted(OTHERS, key=str)),
    op=st.sampled_from(sorted(ORDERED)),
    rows=st.integers(0, 6),
)
def test_other_values_compare_as_python_compares_them(data, kind, op, rows):
    only = {kind: OTHERS[kind]}
    (left, shown_left), (right, shown_right) = data.draw(operands(only, only, rows))
    assert compare(op, left, right, rows).to_pylist() == expected(op, shown_left, shown_right)


def test_texts_are_ordered_by_their_bytes():
    # As UTF-16 the first of these would come last.
    texts = ["\uffff", "😀"]
    assert "\uffff".encode() < "😀".encode()
    assert asked(Comparator.LT, column(texts[:1]), column(texts[1:])) == [True]
    assert asked(Comparator.LT, column(["Z"]), pa.scalar("a")) == [True]
    assert asked(Comparator.EQ, column(["é"]), pa.scalar("e\u0301")) == [False]


def test_false_is_before_true():
    assert asked(Comparator.LT, column([False, True, None]), pa.scalar(True)) == [True, False, None]


def test_days_and_moments_are_ordered_by_time():
    days = column([date(1969, 12, 31), date(1970, 1, 1)])
    assert asked(Comparator.LT, days, pa.scalar(date(1970, 1, 1))) == [True, False]
    start = datetime(2024, 6, 1, tzinfo=UTC)
    kind = pa.timestamp("ms", "UTC")
    moments = column([start, start + timedelta(milliseconds=1)], kind)
    assert asked(Comparator.GT, moments, pa.scalar(start, kind)) == [False, True]


@pytest.mark.parametrize("op", list(Comparator))
def test_a_column_of_nothing_known_is_unknown(op):
    assert asked(op, pa.nulls(2), column(["a", "b"])) == [None, None]
    assert asked(op, column(["a", "b"]), pa.scalar(None)) == [None, None]


@pytest.mark.parametrize("op", sorted(ORDERED))
def test_two_single_values_answer_for_every_row(op):
    one = ORDERED[op](1, 2.5)
    assert compare(op, pa.scalar(1), pa.scalar(2.5), 3).to_pylist() == [one] * 3
    assert compare(op, pa.scalar(1), pa.scalar(2.5), 0).to_pylist() == []


def test_a_column_may_come_in_pieces():
    pieces = pa.chunked_array([[1], [2, 3]], pa.int64())
    whole = column([1.0, 2.5, 3.0])
    assert compare(Comparator.EQ, pieces, whole, 3).to_pylist() == [True, False, True]
    answer = compare(Comparator.EQ, whole, pieces, 3)
    assert isinstance(answer, pa.Array)
    assert answer.to_pylist() == [True, False, True]
    same = compare(Comparator.LE, column([1, 1, 1]), pieces, 3)
    assert isinstance(same, pa.Array)
    nothing = pa.chunked_array([], pa.int64())
    assert compare(Comparator.EQ, nothing, nothing, 0).to_pylist() == []


# --- lists ---------------------------------------------------------------------------------------


def lists(values, kind=None):
    return pa.array(values, pa.list_(kind or pa.string()))


def test_a_list_has_a_value_that_equals_one_of_its_elements():
    held = lists([["dub", "ambient"], ["rock"], []])
    assert asked(Comparator.HAS, held, pa.scalar("dub")) == [True, False, False]


def test_an_unknown_list_or_value_makes_membership_unknown():
    held = lists([None, ["a"], [], ["a"]])
    assert asked(Comparator.HAS, held, column(["a", None, None, "a"])) == [None, None, None, True]
    assert asked(Comparator.HAS, held, pa.scalar(None, pa.string())) == [None] * 4


def test_an_unknown_element_equals_nothing_and_hides_nothing():
    held = lists([[None], [None, "a"], ["b", None]])
    assert asked(Comparator.HAS, held, pa.scalar("a")) == [False, True, False]


def test_each_list_is_searched_for_the_value_of_its_row():
    held = lists([["a"], ["a", "b"], ["c"]])
    assert asked(Comparator.HAS, held, column(["a", "b", "b"])) == [True, True, False]


def test_elements_and_value_may_be_numbers_of_different_types():
    held = lists([[2**53 + 1], [2**53], [3]], pa.int64())
    assert asked(Comparator.HAS, held, pa.scalar(2.0**53)) == [False, True, False]
    floats = lists([[0.5, 3.0], [2.5], [-0.0]], pa.float32())
    assert asked(Comparator.HAS, floats, column([3, 2, 0], pa.uint64())) == [True, False, True]


def test_elements_under_a_null_list_are_ignored():
    offsets, mask = pa.array([0, 1, 3, 4], pa.int32()), pa.array([False, True, False])
    held = pa.ListArray.from_arrays(offsets, pa.array(["a", "b", "c", "d"]), mask=mask)
    assert asked(Comparator.HAS, held, pa.scalar("d")) == [False, None, True]
    assert asked(Comparator.HAS, held, column(["a", "b", "c"])) == [True, None, False]


def test_a_slice_of_a_column_of_lists_is_searched_on_its_own():
    held = lists([["x"], ["a"], None, ["b", "a"], ["y"]]).slice(1, 3)
    assert asked(Comparator.HAS, held, pa.scalar("a")) == [True, None, True]


def test_one_list_is_searched_for_the_value_of_every_row():
    one = pa.scalar(["a", None, "b"], pa.list_(pa.string()))
    assert asked(Comparator.HAS, one, column(["b", "c", None])) == [True, False, None]
    none = pa.scalar(None, pa.list_(pa.string()))
    assert asked(Comparator.HAS, none, column(["b", None])) == [None, None]
    assert compare(Comparator.HAS, one, pa.scalar("a"), 2).to_pylist() == [True, True]


@given(data=st.data(), rows=st.integers(0, 5))
def test_membership_of_numbers_agrees_with_python(data, rows):
    kinds = st.sampled_from(sorted(NUMBERS, key=str))
    of_list, of_value = data.draw(kinds), data.draw(kinds)
    element = st.one_of(st.none(), NUMBERS[of_list])
    some = st.one_of(st.none(), st.lists(element, max_size=3))
    held = data.draw(st.lists(some, min_size=rows, max_size=rows))
    (value, shown), _ = data.draw(operands({of_value: NUMBERS[of_value]}, NUMBERS, rows))
    assert compare(Comparator.HAS, lists(held, of_list), value, rows).to_pylist() == [
        None if items is None or v is None else any(i == v for i in items if i is not None)
        for items, v in zip(held, shown, strict=True)
    ]


@given(data=st.data(), kind=st.sampled_from(sorted(NUMBERS, key=str)))
def test_being_one_of_some_numbers_agrees_with_python(data, kind):
    values = data.draw(st.lists(st.one_of(st.none(), NUMBERS[kind]), max_size=5))
    number = st.one_of(st.sampled_from([*WHOLE, *REAL]), st.none())
    members = data.draw(st.lists(number, max_size=5))
    assert is_member(column(values, kind), members).to_pylist() == [
        None if v is None else any(m == v for m in members if m is not None) for v in values
    ]


def test_members_are_not_rounded_to_the_width_of_the_column():
    values = column([0.1, 0.5, 0.0, -0.0, math.nan, math.inf], pa.float32())
    answer = is_member(values, [0.1, 0.5, 0, math.nan, 1e300])
    assert answer.to_pylist() == [False, True, True, True, False, False]
    assert is_member(column([2.0**53]), [2**53 + 1]).to_pylist() == [False]


# --- texts ---------------------------------------------------------------------------------------

INSIDE = {
    Comparator.CONTAINS: lambda text, part: part in text,
    Comparator.STARTS_WITH: str.startswith,
    Comparator.ENDS_WITH: str.endswith,
}
TEXTS = st.text(alphabet="a%_.*\\[$^(Aé😀\0", max_size=5)


@given(
    data=st.data(),
    op=st.sampled_from(sorted(INSIDE)),
    texts=st.lists(st.one_of(st.none(), TEXTS), max_size=6),
)
def test_parts_of_texts_are_found_as_python_finds_them(data, op, texts):
    part = st.one_of(st.none(), TEXTS.map(lambda t: t[:2]))
    parts = data.draw(st.lists(part, min_size=len(texts), max_size=len(texts)))
    answers = [
        None if t is None or p is None else INSIDE[op](t, p)
        for t, p in zip(texts, parts, strict=True)
    ]
    left, right = column(texts, pa.string()), column(parts, pa.string())
    assert compare(op, left, right, len(texts)).to_pylist() == answers
    for text, needle, answer in zip(texts, parts, answers, strict=True):
        single = pa.scalar(needle, pa.string())
        assert compare(op, column([text], pa.string()), single, 1).to_pylist() == [answer]
        whole = pa.scalar(text, pa.string())
        assert compare(op, whole, column([needle], pa.string()), 1).to_pylist() == [answer]


@pytest.mark.parametrize("op", sorted(INSIDE))
def test_an_empty_part_is_in_every_text_there_is(op):
    texts = column(["", "a", None])
    assert asked(op, texts, pa.scalar("")) == [True, True, None]
    assert asked(op, texts, column(["", "", ""])) == [True, True, None]


@pytest.mark.parametrize("op", sorted(INSIDE))
@pytest.mark.parametrize(
    "wildcard", ["%", "_", ".", ".*", "^", "$", "[a]", "\\", "(", "a|b", "(?i)A"]
)
def test_characters_of_patterns_mean_themselves(op, wildcard):
    texts = ["abc", wildcard, f"{wildcard}x", f"x{wildcard}", ""]
    answers = [INSIDE[op](text, wildcard) for text in texts]
    assert asked(op, column(texts), pa.scalar(wildcard)) == answers
    assert asked(op, column(texts), column([wildcard] * len(texts))) == answers


def test_letters_are_distinguished_by_case():
    assert asked(Comparator.CONTAINS, column(["Tides"]), pa.scalar("tide")) == [False]
    assert asked(Comparator.STARTS_WITH, column(["Tides"]), column(["tide"])) == [False]
