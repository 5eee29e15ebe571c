"""Reciprocal-rank fusion."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.execution.search.hits import UNRANKED, fuse_scores


def scored(first, second, constant=60):
    """The names in two rankings with their fused scores, best first."""
    names = sorted({*first, *second})
    order, scores = fuse_scores(ranks(first, names), ranks(second, names), constant)
    return list(zip([names[place] for place in order], scores.tolist(), strict=True))


def ranks(ranking, names):
    places = {name: rank for rank, name in enumerate(ranking)}
    return np.asarray([places.get(name, UNRANKED) for name in names], np.int64)


def test_rows_of_both_rankings_come_first():
    assert scored(["tides", "tidal", "embers"], ["embers"]) == [
        ("embers", 1 / 63 + 1 / 61),
        ("tides", 1 / 61),
        ("tidal", 1 / 62),
    ]


def test_equal_scores_keep_the_order_of_the_first_ranking_then_of_the_second():
    assert [name for name, _ in scored(["b", "a"], ["y", "x"])] == ["b", "y", "a", "x"]
    assert [name for name, _ in scored(["b", "a"], ["a", "b"])] == ["b", "a"]


def test_nothing_fused_with_nothing_is_nothing():
    assert scored([], []) == []


@given(*[st.lists(st.sampled_from("abcdefgh"), unique=True)] * 2, st.integers(1, 100))
def test_scores_are_those_of_the_definition(first, second, constant):
    expected: dict[str, float] = {}
    for arm in (first, second):
        for rank, name in enumerate(arm):
            expected[name] = expected.get(name, 0) + 1 / (constant + rank + 1)
    found = scored(first, second, constant)
    assert dict(found) == pytest.approx(expected)
    order = list(expected)
    assert found == sorted(found, key=lambda pair: (-pair[1], order.index(pair[0])))
