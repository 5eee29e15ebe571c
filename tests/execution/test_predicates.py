"""Predicates over columns: true, false and unknown."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import product

import pyarrow as pa
import pytest

from omnigraph.execution.predicates import (
    RowScope,
    evaluate,
    evaluate_mask,
    evaluate_operand,
    make_scalar,
)
from omnigraph.plan.expressions import (
    BOOL,
    F64,
    I64,
    STRING,
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    EntityId,
    InList,
    IsNull,
    NotP,
    NowValue,
    ParameterValue,
    PropertyValue,
    TextMatch,
    TextMode,
)
from omnigraph.types.property import PropertyType, Scalar

NOW = datetime(2024, 6, 1, 12, 30, 15, 123_456, tzinfo=UTC)
DATETIME = PropertyType(Scalar.DATETIME)
TRUTHS = [True, False, None]


def list_of(scalar_type):
    return PropertyType(scalar_type, nullable=True, is_list=True)


def scope(parameters=None, **columns):
    """The columns of one variable `x`."""
    arrays = {k: v if isinstance(v, pa.Array) else pa.array(v) for k, v in columns.items()}
    rows = len(next(iter(arrays.values()), []))

    def column(variable, name):
        assert variable == "x"
        return arrays[name]

    return RowScope(rows, column, parameters or {}, NOW)


def prop(name, type_=I64):
    return PropertyValue("x", name, type_)


def is_true(name):
    return Compare(prop(name, BOOL), Comparator.EQ, Constant(True, BOOL))


def truths(*names):
    """A column for each name, with every combination of true, false and NULL."""
    rows = list(product(TRUTHS, repeat=len(names)))
    columns = {n: pa.array([row[i] for row in rows], pa.bool_()) for i, n in enumerate(names)}
    return rows, scope(**columns)


def answers(predicate, given):
    found = evaluate(predicate, given)
    assert found.type == pa.bool_()
    assert len(found) == given.rows
    return found.to_pylist()


# --- three-valued logic --------------------------------------------------------------------------


def conjunction(row):
    return False if False in row else None if None in row else True


def disjunction(row):
    return True if True in row else None if None in row else False


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
def test_and_is_false_with_any_false_and_else_unknown_with_any_unknown(names):
    rows, given = truths(*names)
    predicate = AllOf(tuple(map(is_true, names)))
    assert answers(predicate, given) == [conjunction(row) for row in rows]


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
def test_or_is_true_with_any_true_and_else_unknown_with_any_unknown(names):
    rows, given = truths(*names)
    predicate = AnyOf(tuple(map(is_true, names)))
    assert answers(predicate, given) == [disjunction(row) for row in rows]


def test_not_turns_true_and_false_and_leaves_unknown():
    _, given = truths("a")
    assert answers(NotP(is_true("a")), given) == [False, True, None]
    assert answers(NotP(NotP(is_true("a"))), given) == [True, False, None]


def test_no_conditions_at_all_hold_together_and_none_of_them_alone():
    _, given = truths("a")
    assert answers(AllOf(()), given) == [True] * 3
    assert answers(AnyOf(()), given) == [False] * 3


def test_conditions_nest():
    rows, given = truths("a", "b")
    predicate = NotP(AnyOf((is_true("a"), NotP(is_true("b")))))
    negated = {True: False, False: True, None: None}
    assert answers(predicate, given) == [negated[disjunction((a, negated[b]))] for a, b in rows]


def test_only_rows_that_are_true_are_returned():
    rows, given = truths("a", "b")
    for predicate in [AllOf((is_true("a"), is_true("b"))), NotP(is_true("a"))]:
        kept = evaluate_mask(predicate, given)
        assert kept.null_count == 0
        assert kept.to_pylist() == [a is True for a in answers(predicate, given)]
    assert len(rows) == given.rows


def test_neither_a_condition_nor_its_negation_keeps_an_unknown_row():
    given = scope(p=[1, None])
    equal = Compare(prop("p"), Comparator.EQ, Constant(1, I64))
    assert evaluate_mask(equal, given).to_pylist() == [True, False]
    assert evaluate_mask(NotP(equal), given).to_pylist() == [False, False]


def test_being_different_from_null_is_unknown():
    given = scope(p=[1, None])
    different = Compare(prop("p"), Comparator.NE, Constant(2, I64))
    assert answers(different, given) == [True, None]


# --- is null -------------------------------------------------------------------------------------


def test_is_null_is_never_unknown():
    given = scope(p=[1, None])
    assert answers(IsNull(prop("p")), given) == [False, True]
    assert answers(NotP(IsNull(prop("p"))), given) == [True, False]


def test_nan_is_there():
    assert answers(IsNull(prop("p", F64)), scope(p=[math.nan, None])) == [False, True]


def test_an_empty_list_is_there():
    held = pa.array([[], None], pa.list_(pa.string()))
    assert answers(IsNull(prop("p", list_of(Scalar.STRING))), scope(p=held)) == [False, True]


def test_a_parameter_can_be_null_for_every_row():
    given = scope({"q": None, "r": 1}, p=[1, 2])
    assert answers(IsNull(ParameterValue("q", I64)), given) == [True, True]
    assert answers(IsNull(ParameterValue("r", I64)), given) == [False, False]


# --- in ------------------------------------------------------------------------------------------


def among(value, items, scalar_type):
    return InList(value, Constant(tuple(items), list_of(scalar_type)))


def test_a_value_is_in_a_list_that_has_it():
    given = scope(p=["a", "b", None])
    assert answers(among(prop("p", STRING), ["a", "c"], Scalar.STRING), given) == [
        True,
        False,
        None,
    ]


def test_not_in_leaves_out_rows_without_a_value():
    given = scope(p=["a", "b", None])
    predicate = NotP(among(prop("p", STRING), ["a"], Scalar.STRING))
    assert evaluate_mask(predicate, given).to_pylist() == [False, True, False]


def test_nothing_is_in_an_empty_list():
    given = scope(p=[1, None])
    assert answers(among(prop("p"), [], Scalar.I64), given) == [False, None]


def test_a_null_member_equals_nothing():
    given = scope({"q": [None, 1]}, p=[1, 2, None])
    assert answers(InList(prop("p"), ParameterValue("q", list_of(Scalar.I64))), given) == [
        True,
        False,
        None,
    ]
    only_null = scope({"q": [None]}, p=[1, None])
    assert answers(InList(prop("p"), ParameterValue("q", list_of(Scalar.I64))), only_null) == [
        False,
        None,
    ]


def test_a_list_that_is_null_makes_every_row_unknown():
    given = scope({"q": None}, p=[1, None])
    assert answers(InList(prop("p"), ParameterValue("q", list_of(Scalar.I64))), given) == [
        None,
        None,
    ]


def test_numbers_of_different_types_are_searched_exactly():
    wide = scope(p=pa.array([2**53, 2**53 + 1, 3, None], pa.int64()))
    assert answers(among(prop("p"), [2.0**53, 3.0, 2.5], Scalar.F64), wide) == [
        True,
        False,
        True,
        None,
    ]
    unsigned = scope(p=pa.array([0, 2**64 - 1], pa.uint64()))
    whole = PropertyType(Scalar.U64)
    assert answers(among(prop("p", whole), [-1, 2**64 - 1], Scalar.I64), unsigned) == [False, True]
    floats = scope(p=pa.array([2.0**53, 0.5, 4.0], pa.float64()))
    assert answers(among(prop("p", F64), [2**53 + 1, 4], Scalar.I64), floats) == [
        False,
        False,
        True,
    ]


def test_a_list_may_mix_whole_numbers_and_fractions():
    given = scope(p=pa.array([2**53 + 1, 2**53, 1], pa.int64()))
    assert answers(among(prop("p"), [2**53 + 1, 0.5, 1.0], Scalar.F64), given) == [
        True,
        False,
        True,
    ]


def test_zero_is_in_a_list_whatever_its_sign_and_nan_in_none():
    given = scope(p=[0.0, -0.0, math.nan])
    assert answers(among(prop("p", F64), [0.0, math.nan], Scalar.F64), given) == [True, True, False]
    assert answers(among(prop("p", F64), [-0.0], Scalar.F64), given) == [True, True, False]


@pytest.mark.parametrize(
    ("kind", "scalar_type", "one", "other"),
    [
        (pa.bool_(), Scalar.BOOL, True, False),
        (pa.date32(), Scalar.DATE, date(2024, 1, 2), date(1960, 1, 2)),
        (pa.timestamp("ms", "UTC"), Scalar.DATETIME, datetime(2024, 1, 2, 3, tzinfo=UTC), NOW),
        (pa.string(), Scalar.STRING, "é", "e"),
    ],
    ids=lambda value: str(value) if isinstance(value, Scalar) else "",
)
def test_values_of_other_types_can_be_searched(kind, scalar_type, one, other):
    given = scope(p=pa.array([one, other, None], kind))
    assert answers(among(prop("p", PropertyType(scalar_type)), [one], scalar_type), given) == [
        True,
        False,
        None,
    ]


def test_a_single_value_can_be_searched_too():
    given = scope({"q": 2, "r": None}, p=[1, 2, 3])
    assert answers(among(ParameterValue("q", I64), [1, 2], Scalar.I64), given) == [True] * 3
    assert answers(among(ParameterValue("r", I64), [1, 2], Scalar.I64), given) == [None] * 3
    assert answers(among(Constant(5, I64), [1, 2], Scalar.I64), given) == [False] * 3


# --- operands ------------------------------------------------------------------------------------


def test_two_properties_are_compared_row_by_row():
    given = scope(p=pa.array([1, 2, None], pa.int32()), q=pa.array([1.0, 2.5, 3.0]))
    assert answers(Compare(prop("p"), Comparator.EQ, prop("q", F64)), given) == [True, False, None]


def test_a_constant_may_stand_on_either_side():
    given = scope(p=[1, 2])
    one = Constant(1, I64)
    assert answers(Compare(one, Comparator.LT, prop("p")), given) == [False, True]
    assert answers(Compare(prop("p"), Comparator.LT, one), given) == [False, False]


def test_a_condition_without_a_column_answers_for_every_row():
    given = scope(p=[1, 2])
    always = Compare(Constant(1, I64), Comparator.LT, Constant(1.5, F64))
    assert answers(always, given) == [True, True]


def test_a_parameter_stands_for_its_value():
    given = scope({"q": 2**64 - 1}, p=pa.array([2**64 - 1, 0], pa.uint64()))
    asked = Compare(prop("p"), Comparator.EQ, ParameterValue("q", PropertyType(Scalar.U64)))
    assert answers(asked, given) == [True, False]


def test_a_parameter_without_a_value_makes_every_comparison_unknown():
    given = scope({"q": None}, p=["a", None])
    for op in [Comparator.EQ, Comparator.NE, Comparator.CONTAINS, Comparator.STARTS_WITH]:
        predicate = Compare(prop("p", STRING), op, ParameterValue("q", STRING))
        assert answers(predicate, given) == [None, None]


def test_the_identity_of_a_variable_is_its_id_column():
    given = scope(id=["a", "b"])
    assert answers(Compare(EntityId("x"), Comparator.EQ, Constant("b", STRING)), given) == [
        False,
        True,
    ]


def test_now_is_the_moment_of_the_execution_in_milliseconds():
    shown = NOW.replace(microsecond=123_000)
    moments = [shown - timedelta(milliseconds=1), shown, shown + timedelta(milliseconds=1), None]
    given = scope(p=pa.array(moments, pa.timestamp("ms", "UTC")))
    assert answers(Compare(prop("p", DATETIME), Comparator.LE, NowValue()), given) == [
        True,
        True,
        False,
        None,
    ]
    assert answers(Compare(prop("p", DATETIME), Comparator.EQ, NowValue()), given)[1] is True
    assert evaluate_operand(NowValue(), given).as_py() == shown


def test_a_list_property_is_searched_for_an_element():
    held = pa.array([["dub"], [], None], pa.list_(pa.string()))
    has = Compare(prop("p", list_of(Scalar.STRING)), Comparator.HAS, Constant("dub", STRING))
    assert answers(has, scope(p=held)) == [True, False, None]


def test_a_list_parameter_is_searched_for_the_value_of_each_row():
    given = scope({"q": ["a", "b"]}, p=["b", "c", None])
    parameter = ParameterValue("q", list_of(Scalar.STRING))
    assert answers(Compare(parameter, Comparator.HAS, prop("p", STRING)), given) == [
        True,
        False,
        None,
    ]


def test_no_rows_give_no_answers():
    given = scope(p=pa.array([], pa.int64()))
    predicate = AllOf((IsNull(prop("p")), among(prop("p"), [1], Scalar.I64)))
    assert answers(predicate, given) == []
    constant = Compare(Constant(1, I64), Comparator.EQ, Constant(1, I64))
    assert answers(constant, given) == []


# --- single values -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "type_", "held"),
    [
        ("x", STRING, "x"),
        (2**64 - 1, PropertyType(Scalar.U64), 2**64 - 1),
        (True, BOOL, True),
        (1, F64, 1.0),
        (2**53 + 1, F64, 2.0**53),
        (0.1, PropertyType(Scalar.F32), 0.10000000149011612),
        (date(1960, 1, 2), PropertyType(Scalar.DATE), date(1960, 1, 2)),
        (("a", None), list_of(Scalar.STRING), ["a", None]),
        ((1, 2.5), list_of(Scalar.F64), [1.0, 2.5]),
        ((1, 0.5), PropertyType(Scalar.VECTOR, dimension=2), [1.0, 0.5]),
        (None, I64, None),
        (None, F64, None),
        (None, list_of(Scalar.F64), None),
    ],
)
def test_a_value_is_held_in_its_declared_type(value, type_, held):
    assert make_scalar(value, type_).as_py() == held


def test_a_moment_in_any_zone_is_held_in_utc():
    noon = datetime(2024, 6, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert make_scalar(noon, DATETIME).as_py() == datetime(2024, 6, 1, 12, tzinfo=UTC)


def test_text_search_is_not_answered_here():
    match = TextMatch(TextMode.ANY_TERM, "x", "p", Constant("a", STRING))
    with pytest.raises(AssertionError, match="search operators"):
        evaluate(match, scope(p=["a"]))
