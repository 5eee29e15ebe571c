"""Vectors in memory: whatever is skipped on the way, the nearest are those of the definition."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.execution.search.vector_matrix import build_matrix, find_nearest_in_matrix

ROWS, DIMENSION = 5_000, 64


def values_of(kind, rng):
    if kind == "uniform":
        return rng.random((ROWS, DIMENSION))
    if kind == "clustered":
        centres = rng.normal(size=(20, DIMENSION))
        return centres[rng.integers(0, 20, ROWS)] + 0.2 * rng.normal(size=(ROWS, DIMENSION))
    if kind == "far from the origin":
        return 1e4 + rng.normal(size=(ROWS, DIMENSION))
    if kind == "one much longer than the others":
        values = rng.normal(size=(ROWS, DIMENSION))
        values[17] *= 1e6
        return values
    if kind == "few different":
        return rng.integers(0, 2, (ROWS, 1)) * np.ones((1, DIMENSION))
    scale = {"tiny": 1e-25, "huge": 1e25}[kind]
    return scale * rng.normal(size=(ROWS, DIMENSION))


KINDS = (
    "uniform",
    "clustered",
    "far from the origin",
    "one much longer than the others",
    "few different",
    "tiny",
    "huge",
)


def column(values):
    kind = pa.list_(pa.float32(), values.shape[1])
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel(), pa.float32()), type=kind)


def exact_distances(values, query):
    apart = values.astype(np.float64) - query.astype(np.float64)
    return np.sqrt(np.square(apart).sum(axis=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [None, 0.6, 0.1])
def test_the_nearest_places_are_those_of_the_definition(kind, share):
    rng = np.random.default_rng(KINDS.index(kind))
    values = values_of(kind, rng).astype(np.float32)
    matrix = build_matrix(column(values))
    among = None if share is None else np.flatnonzero(rng.random(ROWS) < share)
    chosen = np.arange(ROWS) if among is None else among
    for keep in (1, 10, 300):
        step = (values.max() - values.min()) * rng.normal(size=DIMENSION) / 50
        query = (values[int(rng.integers(ROWS))] + step).astype(np.float32)
        places, measured = find_nearest_in_matrix(matrix, among, query, keep)
        expected = exact_distances(values, query)
        limit = np.sort(expected[chosen])[keep - 1]
        assert measured == pytest.approx(expected[places], rel=1e-12)
        needed = chosen[expected[chosen] < limit * (1 - 1e-12)]
        assert set(needed.tolist()) <= set(places.tolist()) <= set(chosen.tolist())
        assert np.sort(measured)[:keep] == pytest.approx(np.sort(expected[chosen])[:keep])


def test_most_vectors_are_never_measured_where_they_differ_in_a_few_directions():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(ROWS, 8)) @ rng.normal(size=(8, DIMENSION))
    matrix = build_matrix(column(values.astype(np.float32)))
    places, _ = find_nearest_in_matrix(matrix, None, matrix.values[5], 10)
    assert len(places) < 50


def test_without_a_number_to_keep_every_distance_is_given():
    values = np.random.default_rng(4).random((ROWS, DIMENSION)).astype(np.float32)
    places, measured = find_nearest_in_matrix(build_matrix(column(values)), None, values[0], None)
    assert places.tolist() == list(range(ROWS))
    assert measured[0] == 0
    assert not math.isnan(measured.max())


def test_rows_without_a_vector_are_left_out():
    matrix = build_matrix(pa.array([None, [1, 0], None, [0, 1]], pa.list_(pa.float32(), 2)))
    assert matrix.rows.tolist() == [1, 3]
    assert matrix.values.tolist() == [[1, 0], [0, 1]]
