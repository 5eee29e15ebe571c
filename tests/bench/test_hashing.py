from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.hashing import hash_arrow, hash_rows

ROWS = [{"name": "Ann", "age": 30}, {"name": "Bo", "age": None}, {"name": "Ann", "age": 30}]

values = st.none() | st.booleans() | st.integers() | st.text(max_size=5)


@given(st.lists(st.lists(values, max_size=3), max_size=8), st.randoms())
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert hash_rows(shuffled) == hash_rows(rows)


def test_the_order_of_rows_matters_on_request():
    assert hash_rows(ROWS, ordered=True) != hash_rows([*ROWS[1:], ROWS[0]], ordered=True)


def test_duplicates_count():
    assert hash_rows(ROWS) != hash_rows(ROWS[:2])
    assert hash_rows([[1], [1]]) != hash_rows([[2], [2]])
    assert hash_rows([[1], [1]]) != hash_rows([])


def test_the_order_of_columns_by_name_does_not_matter():
    assert hash_rows([{"a": 1, "b": 2}]) == hash_rows([{"b": 2, "a": 1}])


def test_rows_without_names_are_compared_by_position():
    assert hash_rows([[1, 2]]) == hash_rows([(1, 2)])
    assert hash_rows([[1, 2]]) != hash_rows([[2, 1]])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (3, 3.0),
        (3, np.int64(3)),
        (0.1 + 0.2, 0.3),
        (Decimal("2.5"), 2.5),
        (date(2024, 6, 1), "2024-06-01"),
        (float("nan"), float("nan")),
        (b"\x01", "01"),
    ],
    ids=str,
)
def test_one_value_in_two_spellings_is_one_value(one, other):
    assert hash_rows([[one]]) == hash_rows([[other]])


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 2), (1, "1"), (None, ""), (0, False), (0.3, 0.3000001)],
    ids=str,
)
def test_different_values_differ(one, other):
    assert hash_rows([[one]]) != hash_rows([[other]])


def test_an_arrow_table_hashes_as_its_rows():
    table = pa.Table.from_pylist(ROWS)
    assert hash_arrow(table) == hash_rows(ROWS)
    assert hash_arrow(table, ordered=True) == hash_rows(ROWS, ordered=True)


def test_a_value_without_a_canonical_form_is_refused():
    with pytest.raises(TypeError, match="canonical form for object"):
        hash_rows([[object()]])
