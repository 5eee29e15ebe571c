"""Find the nearest of the vectors of a segment, held in memory as a matrix.

All vectors are first compared through a low-dimensional projection, which never overestimates a
distance; the rest through a product in single precision; and only those that could still be
among the nearest are measured exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.execution.search.hits import Doubles, Integers, find_smallest

Floats = npt.NDArray[np.float32]

_PROJECTION_SHARE = 4
"""A projection has one column for this many of the vectors'."""
_MIN_PROJECTION = 16
_SAMPLED_ROWS = 2_048
_PROJECTION_ROUNDS = 3
_ROWS_PER_BLOCK = 1_024
"""A block should fit in the processor's cache."""
_GUESSES = 8
"""Candidates measured to bound the distance of the last result, as a factor."""
_ITEMS_PER_PRODUCT = 4_096
_SCATTERED_SHARE = 4
"""Fewer rows than one in this many are gathered before they are multiplied."""
_SINGLE = np.finfo(np.float32)


@dataclass(frozen=True, slots=True)
class VectorProjection:
    """Vectors projected on the directions of largest variance.

    The last column is the norm of the remainder. By it and the Cauchy-Schwarz inequality, the
    product of two projections is at least that of the vectors.
    """

    directions: Doubles
    values: Floats

    def of(self, query: Doubles) -> Floats:
        seen: Floats = _find_seen(query[None, :], self.directions)[0]
        return seen


@dataclass(frozen=True, slots=True)
class Matrix:
    """The vectors of a run of rows; `rows` are the ones that have a vector, None all of them."""

    rows: Integers | None
    values: Floats
    squares: Floats
    """The square of the length of each vector."""
    largest: float
    """The largest of the squares."""
    shadow: VectorProjection | None

    @property
    def size_bytes(self) -> int:
        rows = 0 if self.rows is None else self.rows.nbytes
        shadow = 0 if self.shadow is None else self.shadow.values.nbytes
        return self.values.nbytes + self.squares.nbytes + rows + shadow


def make_matrix(vectors: pa.Array) -> tuple[Integers | None, Floats]:
    """The rows of a column that have a vector, None if all do, and the vectors."""
    rows = None
    if vectors.null_count:
        rows = np.flatnonzero(np.asarray(vectors.is_valid()))
        vectors = vectors.drop_null()
    items = vectors.flatten().to_numpy(zero_copy_only=False)
    return rows, np.ascontiguousarray(items).reshape(-1, vectors.type.list_size)


def build_matrix(vectors: pa.Array) -> Matrix:
    """The matrix of these rows."""
    rows, values = make_matrix(vectors)
    squares = _measure_squares(values, np.zeros(values.shape[1]))
    with np.errstate(over="ignore"):
        single = squares.astype(np.float32)
    return Matrix(rows, values, single, float(squares.max(initial=0.0)), _build_projection(values))


def _build_projection(values: Floats) -> VectorProjection | None:
    columns = values.shape[1] // _PROJECTION_SHARE
    if columns < _MIN_PROJECTION or len(values) < _SAMPLED_ROWS or not np.isfinite(values).all():
        return None
    # A fixed seed: the directions affect only the speed.
    random = np.random.default_rng(0)
    sample = values[:: len(values) // _SAMPLED_ROWS].astype(np.float64)
    directions: Doubles = np.linalg.qr(random.normal(size=(values.shape[1], columns - 1)))[0]
    for _ in range(_PROJECTION_ROUNDS):
        directions = np.linalg.qr(sample.T @ (sample @ directions))[0]
    shadow = np.empty((len(values), columns), np.float32)
    for start in range(0, len(values), _ROWS_PER_BLOCK):
        some = slice(start, start + _ROWS_PER_BLOCK)
        shadow[some] = _find_seen(values[some], directions)
    return VectorProjection(directions, shadow)


def _find_seen(vectors: npt.NDArray[np.floating], directions: Doubles) -> Floats:
    exact = vectors.astype(np.float64)
    seen = np.matmul(exact[:, None, :], directions)[:, 0, :]  # row by row, on one processor
    rest = np.square(exact).sum(axis=1) - np.square(seen).sum(axis=1)
    return np.column_stack([seen, np.sqrt(np.maximum(rest, 0.0))]).astype(np.float32)


# --- measuring ------------------------------------------------------------------------------------


def measure_distances(values: Floats, query: Floats) -> Doubles:
    """Return the distance of each vector from the query, in double precision."""
    return np.sqrt(_measure_squares(values, query.astype(np.float64)))


def _measure_squares(values: Floats, query: Doubles) -> Doubles:
    squares = np.empty(len(values))
    for start in range(0, len(values), _ROWS_PER_BLOCK):
        apart = values[start : start + _ROWS_PER_BLOCK] - query
        np.square(apart, out=apart).sum(axis=1, out=squares[start : start + _ROWS_PER_BLOCK])
    return squares


def find_nearest_in_matrix(
    matrix: Matrix, among: Integers | None, query: Floats, keep: int | None
) -> tuple[Integers, Doubles]:
    """Find the positions and distances of the `keep` nearest vectors of those in `among`.

    None is all positions, or all distances. A few more may be returned.
    """
    positions = np.arange(len(matrix.values)) if among is None else among
    if keep is not None and len(positions) > keep > 0:
        positions = _narrow_positions(matrix, positions, query, keep)
    return positions, measure_distances(_take_rows(matrix.values, positions), query)


def _narrow_positions(matrix: Matrix, positions: Integers, query: Floats, keep: int) -> Integers:
    """Drop positions that are certainly not among the nearest."""
    exact = query.astype(np.float64)
    square = float(exact @ exact)
    if not 8 * (matrix.largest + square) < float(_SINGLE.max):
        return positions
    views = [(matrix.values, query)]
    if matrix.shadow is not None and len(positions) * _SCATTERED_SHARE > len(matrix.values):
        views.insert(0, (matrix.shadow.values, matrix.shadow.of(exact)))
    for values, seen in views:
        least = _compute_products(values, positions, seen)
        least *= -2
        least += _take_rows(matrix.squares, positions)
        best = find_smallest(least, _GUESSES * keep)[: _GUESSES * keep]
        guessed = measure_distances(matrix.values[positions[best]], query)
        reach = float(np.partition(guessed, keep - 1)[keep - 1]) ** 2
        limit = reach - square + _estimate_error(values.shape[1], matrix.largest + square)
        positions = positions[least <= np.nextafter(np.float32(limit), _SINGLE.max)]
    return positions


def _compute_products(values: Floats, positions: Integers, query: Floats) -> Floats:
    if len(positions) * _SCATTERED_SHARE < len(values):
        return _compute_product(values[positions], query)
    return _take_rows(_compute_product(values, query), positions)


def _compute_product(values: Floats, query: Floats) -> Floats:
    """Multiply a matrix by a vector, on one processor.

    It completes before another thread would have started, and on a busy machine much sooner than
    the last of several. Small enough blocks are not parallelized.
    """
    rows = max(1, _ITEMS_PER_PRODUCT // len(query))
    whole = len(values) // rows * rows
    found = np.empty(len(values), np.float32)
    blocks = values[:whole].reshape(-1, rows, len(query))
    np.matmul(blocks, query, out=found[:whole].reshape(-1, rows))
    np.matmul(values[whole:], query, out=found[whole:])
    return found


def _take_rows(values: Floats, positions: Integers) -> Floats:
    return values if len(positions) == len(values) else values[positions]


def _estimate_error(columns: int, squares: float) -> float:
    """Bound the error of a squared distance computed from single-precision products.

    Errors of a sum grow with its terms; those of subnormal terms with their number.
    """
    return (columns + 16) * (2 * squares * float(_SINGLE.eps) + 8 * float(_SINGLE.tiny))
