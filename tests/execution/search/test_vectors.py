"""Nearest vectors: exact with and without an index, never starved by candidates."""

from __future__ import annotations

import math
import tempfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execution.search.corpora import (
    BY_ID,
    by_vector,
    changed,
    compacted,
    created,
    extended,
    ids_of,
    indexed,
    row_ids_of,
    vector_rows,
)
from omnigraph.errors import BadRequest
from omnigraph.execution.search import vector_search as search
from omnigraph.execution.search.search_cache import SearchCache
from omnigraph.storage.tables.indices import LanceIndexKind
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch
from storage.tables.table_fixtures import ulids

VIBES = {"tides": [1, 0, 0], "embers": [0, 1, 0], "tidal": [0.9, 0.1, 0], "static": None}


def found(table, query, within=None, keep=None):
    """Return the nearest in order; all that are as far away as the last one are included."""
    among = None if within is None else row_ids_of(table, within)
    hits = nearest(table, "vector", query, among, keep)
    assert hits.values.dtype == np.float64
    pairs = zip(ids_of(table, hits.row_ids), hits.values.tolist(), strict=True)
    ordered = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    if keep is not None:
        assert all(distance == ordered[keep - 1][1] for _, distance in ordered[keep:])
    return ordered[:keep]


def ids(table, query, within=None, keep=None):
    return [id for id, _ in found(table, query, within, keep)]


def naive(vectors, query, within=None, keep=None):
    q = np.asarray(query, np.float32).astype(np.float64)
    measured = [
        (math.sqrt(float(np.square(np.asarray(v, np.float32).astype(np.float64) - q).sum())), id)
        for id, v in vectors.items()
        if v is not None and (within is None or id in within)
    ]
    return [(id, pytest.approx(distance, rel=1e-12)) for distance, id in sorted(measured)[:keep]]


MEMORIES = {"in memory": SearchCache(), "too large for memory": SearchCache(vector_bytes=0)}
chosen = [SearchCache()]


@pytest.fixture(autouse=True, params=MEMORIES)
def _memory(request):
    """Every test with a cached column, and with one that is never cached."""
    chosen[:] = [MEMORIES[request.param]]


def nearest(table, column, query, among, keep):
    return search.find_nearest_rows(chosen[0], table, column, query, among, keep)


@pytest.fixture(params=["no index", "full index", "partial index"])
def albums(request, location):
    if request.param == "partial index":
        some = {id: VIBES[id] for id in ("tides", "static")}
        table = indexed(created(location, vector_rows(some, 3)), by_vector())
        return changed(table, vector_rows({id: VIBES[id] for id in ("embers", "tidal")}, 3))
    table = created(location, vector_rows(VIBES, 3))
    return indexed(table, by_vector(), BY_ID) if request.param == "full index" else table


def test_the_nearest_come_first_and_rows_without_a_vector_never(albums):
    assert ids(albums, [1, 0, 0], keep=2) == ["tides", "tidal"]
    assert ids(albums, [1, 0, 0], keep=9) == ["tides", "tidal", "embers"]
    assert ids(albums, [1, 0, 0]) == ["tides", "tidal", "embers"]


def test_the_distance_is_euclidean(albums):
    assert found(albums, [1, 0, 0]) == [
        ("tides", 0.0),
        ("tidal", pytest.approx(math.sqrt(0.02), rel=1e-6)),
        ("embers", pytest.approx(math.sqrt(2))),
    ]


def test_a_stored_vector_is_found_at_distance_zero(albums):
    assert found(albums, [0.9, 0.1, 0], keep=1) == [("tidal", 0.0)]


def test_candidates_are_chosen_before_the_nearest_are(albums):
    assert ids(albums, [1, 0, 0], ["embers", "static", "gone"], 2) == ["embers"]
    assert ids(albums, [1, 0, 0], [], 2) == []
    assert ids(albums, [1, 0, 0], keep=0) == []


def test_a_query_of_another_dimension_is_refused(albums):
    with pytest.raises(BadRequest, match="vector has 3 dimensions, the query vector 2"):
        nearest(albums, "vector", [1, 0], None, 1)


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_a_query_that_is_not_finite_is_refused(albums, value):
    with pytest.raises(BadRequest, match="not finite"):
        nearest(albums, "vector", [1, value, 0], None, 1)


def test_an_empty_table_and_one_without_any_vector_have_no_nearest(location):
    table = created(location, vector_rows({}, 3))
    assert ids(table, [1, 0, 0], keep=3) == []
    table = changed(table, vector_rows({"a": None, "b": None}, 3))
    assert ids(table, [1, 0, 0], keep=3) == []
    assert ids(table, [1, 0, 0]) == []


@pytest.mark.parametrize("partitions", [None, 1, 4])
def test_equal_distances_are_in_the_order_of_the_ids(location, partitions):
    vectors = {f"d{(n * 37) % 500:03}": [1.0, 0.0] for n in range(500)}
    vectors["far"] = [5.0, 5.0]
    table = created(location, vector_rows(vectors, 2))
    if partitions:
        table = indexed(table, by_vector(partitions))
    assert ids(table, [0, 0], keep=3) == ["d000", "d001", "d002"]
    assert ids(table, [0, 0], keep=501) == [*(f"d{n:03}" for n in range(500)), "far"]


@pytest.mark.parametrize("scale", [1e-25, 1e25], ids=["tiny", "huge"])
def test_numbers_whose_squares_single_precision_cannot_hold_are_distinguished(location, scale):
    vectors = {f"d{n:04}": [scale * (n + 1), 0.0] for n in range(3_000)}
    table = created(location, vector_rows(vectors, 2))
    assert ids(table, [0, 0], keep=4) == ["d0000", "d0001", "d0002", "d0003"]


# --- the same answer, whatever the table is made of -----------------------------------------------


@settings(max_examples=20)
@given(data=st.data())
def test_random_histories_give_the_naive_answer(data):
    names = [f"d{n:02}" for n in range(40)]
    few = st.integers(-2, 2).map(float)
    vector = st.one_of(st.none(), st.lists(few, min_size=3, max_size=3))
    some = st.dictionaries(st.sampled_from(names), vector, min_size=1, max_size=30)
    vectors = data.draw(some)
    with tempfile.TemporaryDirectory() as folder:
        table = created(TableLocation(f"{folder}/table"), vector_rows(vectors, 3))
        for _ in range(data.draw(st.integers(1, 6))):
            table, vectors = changed_somehow(data, table, vectors, some)
            query = data.draw(st.lists(few, min_size=3, max_size=3))
            keep = data.draw(st.sampled_from([None, 1, 5, 100]))
            within = data.draw(st.none() | st.lists(st.sampled_from(names)))
            assert found(table, query, within, keep) == naive(vectors, query, within, keep)


def changed_somehow(data, table, vectors, some):
    step = data.draw(st.sampled_from(["write", "delete", "index", "extend", "compact", "branch"]))
    if step == "write":
        upserts = data.draw(some)
        return changed(table, vector_rows(upserts, 3)), {**vectors, **upserts}
    if step == "delete" and vectors:
        doomed = data.draw(st.lists(st.sampled_from(sorted(vectors)), unique=True, max_size=9))
        kept = {id: vector for id, vector in vectors.items() if id not in doomed}
        return (changed(table, vector_rows({}, 3), doomed) if doomed else table), kept
    if step == "index" and any(vector is not None for vector in vectors.values()):
        return indexed(table, by_vector(), BY_ID), vectors
    if step == "extend":
        return extended(table), vectors
    if step == "compact":
        return compacted(table), vectors
    if step == "branch":
        name = ulids.next()
        create_branch(table.location, name, table.location.branch, table.version)
        return open_table(table.location.on_branch(name), table.version), vectors
    return table, vectors


# --- larger tables --------------------------------------------------------------------------------

COUNT, DIMENSION = 3_000, 32


def many(kind: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    values = rng.random((COUNT, DIMENSION), np.float32)
    if kind == "clustered":
        centres = rng.normal(size=(40, DIMENSION))
        spread = 0.3 * rng.normal(size=(COUNT, DIMENSION))
        values = (centres[rng.integers(0, 40, COUNT)] + spread).astype(np.float32)
    return {f"d{n:04}": vector for n, vector in enumerate(values)}


@pytest.fixture(scope="module", params=["uniform", "clustered"])
def vectors(request):
    return many(request.param)


def build(folder, vectors, *specs):
    """A table of which the index covers five sixths."""
    some = dict(list(vectors.items())[: COUNT * 5 // 6])
    table = created(TableLocation(str(folder / "table")), vector_rows(some, DIMENSION))
    table = indexed(table, BY_ID, *specs)
    rest = {id: vector for id, vector in vectors.items() if id not in some}
    return changed(table, vector_rows(rest, DIMENSION))


@pytest.mark.parametrize("partitions", [None, 1, 64])
def test_an_index_that_keeps_whole_vectors_is_exact(tmp_path, vectors, partitions):
    table = build(tmp_path, vectors, *([by_vector(partitions)] if partitions else []))
    rng = np.random.default_rng(8)
    everyone = list(vectors)
    for share in (None, 1.0, 0.5, 0.05):
        query = vectors[everyone[int(rng.integers(COUNT))]] + 0.05
        within = None
        if share is not None:
            within = set(rng.permutation(everyone)[: int(COUNT * share)].tolist())
        for keep in (1, 10, 900):
            assert found(table, query, within, keep) == naive(vectors, query, within, keep)


@pytest.mark.parametrize(
    "spec",
    [
        by_vector(8, LanceIndexKind.IVF_PQ, num_sub_vectors=8),
        by_vector(1, LanceIndexKind.IVF_HNSW_SQ),
    ],
    ids=["product quantised", "graph of quantised"],
)
def test_a_lossy_index_finds_nearly_all_of_the_nearest(tmp_path, vectors, spec):
    table = build(tmp_path, vectors, spec)
    rng = np.random.default_rng(9)
    hits = 0
    for _ in range(20):
        query = vectors[f"d{int(rng.integers(COUNT)):04}"] + 0.05
        expected = {id for id, _ in naive(vectors, query, keep=10)}
        answer = ids(table, query, keep=10)
        assert len(answer) == 10
        hits += len(expected & set(answer))
    assert hits >= 0.95 * 200


def test_candidates_far_away_are_found_among_many_nearer_rows(location):
    near = {f"near{n:05}": [n / 1e6, 0.0] for n in range(20_000)}
    far = {f"far{n:04}": [100.0 + n, 0.0] for n in range(2_000)}
    table = indexed(created(location, vector_rows({**near, **far}, 2)), by_vector())
    assert ids(table, [0, 0], list(far), 3) == ["far0000", "far0001", "far0002"]
