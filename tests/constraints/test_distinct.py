"""Repeated values, for few and for many of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.constraints.unique_keys import are_distinct

FEW, MANY = 1_000, (1 << 20) + 5


@pytest.mark.parametrize("count", [FEW, MANY])
def test_one_value_that_stands_twice_is_found_wherever_it_is(count):
    names = [f"n{number}" for number in range(count)]
    assert are_distinct(pa.array(names))
    assert not are_distinct(pa.array([*names, names[count // 2]]))
    assert are_distinct(pa.array([*names, None]))
    assert not are_distinct(pa.array([None, *names, None]))


def test_nothing_and_a_single_value_do_not_repeat():
    assert are_distinct(pa.array([], pa.string()))
    assert are_distinct(pa.array(["a"]))
