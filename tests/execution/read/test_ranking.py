"""Rankings that are put in order only as far as needed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.execution.read.scores import Ranking, merge_rankings

few_keys = st.dictionaries(st.integers(0, 200), st.integers(0, 5), max_size=120)


def ranking(keys):
    codes = np.asarray(list(keys), np.int32)
    values = np.asarray(list(keys.values()), np.float64)
    return Ranking(codes, values, values, codes.astype(np.int64))


def in_order(keys):
    return sorted(keys, key=lambda code: (keys[code], code))


@given(few_keys, st.none() | st.integers(0, 150))
def test_the_best_come_first_and_equal_ones_by_what_breaks_ties(keys, keep):
    found = ranking(keys).best(keep)
    assert found.codes.tolist() == in_order(keys)[:keep]
    assert found.values.tolist() == [keys[code] for code in in_order(keys)[:keep]]


@given(few_keys, st.lists(st.integers(0, 200), unique=True))
def test_a_rank_counts_those_that_come_before(keys, wanted):
    places = {code: rank for rank, code in enumerate(in_order(keys))}
    found = ranking(keys).ranks(np.asarray(wanted, np.int32))
    assert found.tolist() == [places.get(code, -1) for code in wanted]


@given(few_keys, few_keys, st.integers(1, 60), st.none() | st.integers(0, 30), st.booleans())
def test_the_first_of_a_fusion_are_the_first_of_the_whole_fusion(
    first, second, constant, keep, is_short
):
    if is_short and keep is not None:
        first = {code: first[code] for code in in_order(first)[:keep]}
    expected: dict[int, float] = {}
    for arm in (first, second):
        for rank, code in enumerate(in_order(arm)):
            expected[code] = expected.get(code, 0.0) + 1 / (constant + rank + 1)
    order = list(expected)
    best = sorted(expected, key=lambda code: (-expected[code], order.index(code)))
    codes, scores = merge_rankings(ranking(first), ranking(second), constant, keep)
    assert codes.tolist() == best[:keep]
    assert scores.tolist() == [expected[code] for code in best[:keep]]
