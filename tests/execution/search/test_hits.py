"""Choosing the smallest of many values without sorting them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.execution.search.hits import find_smallest


@given(st.integers(0, 2_000), st.sampled_from([2, 50, 1_000_000]), st.integers(0, 40), st.randoms())
def test_the_smallest_and_their_equals_are_found(size, different, count, random):
    values = np.asarray([random.randrange(different) for _ in range(size)], np.float64)
    limit = sorted(values)[:count]
    expected = np.flatnonzero(values <= limit[-1]) if limit else np.empty(0, np.int64)
    assert find_smallest(values, count).tolist() == expected.tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_values_that_all_are_equal_are_all_found(kind):
    assert len(find_smallest(np.ones(1_000, kind), 3)) == 1_000
