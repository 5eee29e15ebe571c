"""Reciprocal-rank fusion."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution.search.corpora import changed, created, text_rows, vector_rows
from omnigraph.execution.search.fuse import fused
from omnigraph.execution.search.text import scores
from omnigraph.execution.search.vectors import nearest
from omnigraph.storage.tables.location import TableLocation


def ranking(ids):
    return pa.table({"id": pa.array(ids, pa.string())})


def scored(first, second, constant=60):
    found = fused(ranking(first), ranking(second), constant)
    assert found.schema.names == ["id", "score"]
    assert found.schema.types == [pa.string(), pa.float64()]
    return list(zip(*found.to_pydict().values(), strict=True))


def test_what_both_rankings_know_comes_first():
    assert scored(["tides", "tidal", "embers"], ["embers"]) == [
        ("embers", 1 / 63 + 1 / 61),
        ("tides", 1 / 61),
        ("tidal", 1 / 62),
    ]


def test_vectors_and_texts_are_fused(tmp_path):
    texts = {"tides": "Slow Tides", "embers": "Night Embers", "tidal": "Tidal Maps"}
    vibes = {"tides": [1, 0, 0], "embers": [0, 1, 0], "tidal": [0.9, 0.1, 0]}
    words = created(TableLocation(str(tmp_path / "words")), text_rows(texts))
    vectors = created(TableLocation(str(tmp_path / "vectors")), vector_rows(vibes, 3))
    vectors = changed(vectors, vector_rows({"static": None}, 3))
    by_vector = nearest(vectors, "vector", [1, 0, 0], None, 3)
    by_text = scores(words, "text", "embers", None)
    assert fused(by_vector, by_text, 60).column("id").to_pylist() == ["embers", "tides", "tidal"]


def test_equal_scores_keep_the_order_of_the_first_ranking_then_of_the_second():
    assert [id for id, _ in scored(["a", "b"], ["x", "y"])] == ["a", "x", "b", "y"]
    assert [id for id, _ in scored(["a", "b"], ["b", "a"])] == ["a", "b"]


def test_an_id_that_comes_again_has_its_first_rank():
    assert scored(["a", "a", "b"], [], 1) == [("a", 1 / 2), ("b", 1 / 3)]


def test_nothing_fused_with_nothing_is_nothing():
    assert scored([], []) == []


@given(*[st.lists(st.sampled_from("abcdefgh"))] * 2, st.integers(1, 100))
def test_scores_are_those_of_the_definition(first, second, constant):
    expected: dict[str, float] = {}
    for arm in (first, second):
        for rank, id in enumerate(dict.fromkeys(arm)):
            expected[id] = expected.get(id, 0) + 1 / (constant + rank + 1)
    found = scored(first, second, constant)
    assert dict(found) == pytest.approx(expected)
    order = list(expected)
    assert found == sorted(found, key=lambda pair: (-pair[1], order.index(pair[0])))
