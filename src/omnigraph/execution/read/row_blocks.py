"""Blocks of rows that flow between operators, and what each operator requires of its input.

In a block each variable is a column of entity codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np

from omnigraph.errors import BadRequest
from omnigraph.execution.read.code_arrays import (
    Codes,
    Groups,
    Integers,
    Longs,
    combine_codes,
    group,
    is_dense,
    split_codes,
    sum_groups,
)
from omnigraph.execution.read.entities import Entities
from omnigraph.plan.plan_nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
    Expand,
    FilterRows,
    Match,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    Project,
    Rank,
    Slice,
    Sort,
)
from omnigraph.plan.walk import list_children, list_predicate_variables

BLOCK_ROWS = 1 << 20
"""Operators split their output into blocks of about this many rows."""

_MAX_COUNTABLE = 2.0**62
_TELLING_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Rows:
    """A block of rows of a match.

    `codes` has a column for every live variable: codes of its `entities`, or for a hop variable the
    count itself. All blocks of one operator share the entities of a variable. `weights` counts the
    equal rows that each row represents, `origin` is the index of the outer row in a nested block.
    """

    size: int
    codes: Mapping[str, Codes] = field(default_factory=dict)
    entities: Mapping[str, Entities] = field(default_factory=dict)
    weights: Longs | None = None
    origin: Codes | None = None

    @property
    def count(self) -> int:
        """Return the number of rows of the match that these represent."""
        return self.size if self.weights is None else int(self.weights.sum())

    def take(self, positions: Integers) -> Rows:
        return replace(
            self,
            size=len(positions),
            codes={name: codes[positions] for name, codes in self.codes.items()},
            weights=None if self.weights is None else self.weights[positions],
            origin=None if self.origin is None else self.origin[positions],
        )

    def repeat(self, counts: Longs) -> Rows:
        """Repeat each row by its count."""
        size = int(counts.sum())
        if not self.codes and self.weights is None and self.origin is None:
            return replace(self, size=size)
        return replace(
            self,
            size=size,
            codes={name: np.repeat(codes, counts) for name, codes in self.codes.items()},
            weights=None if self.weights is None else np.repeat(self.weights, counts),
            origin=None if self.origin is None else np.repeat(self.origin, counts),
        )

    def slice(self, start: int, stop: int) -> Rows:
        stop = min(stop, self.size)
        if start == 0 and stop == self.size:
            return self
        return replace(
            self,
            size=stop - start,
            codes={name: codes[start:stop] for name, codes in self.codes.items()},
            weights=None if self.weights is None else self.weights[start:stop],
            origin=None if self.origin is None else self.origin[start:stop],
        )

    def pieces(self, rows: int) -> Iterator[Rows]:
        for start in range(0, self.size, rows):
            yield self.slice(start, start + rows)

    def only(self, variables: Iterable[str]) -> Rows:
        """Return the rows without the columns of other variables."""
        wanted = set(variables)
        return replace(
            self,
            codes={name: codes for name, codes in self.codes.items() if name in wanted},
            entities={name: found for name, found in self.entities.items() if name in wanted},
        )

    def with_columns(
        self, codes: Mapping[str, Codes], entities: Mapping[str, Entities] | None = None
    ) -> Rows:
        return replace(
            self,
            codes={**self.codes, **codes},
            entities={**self.entities, **(entities or {})},
        )

    def add_weights(self, factor: Longs | None) -> Rows:
        """Multiply the weight of every row."""
        if factor is None:
            return self
        weights = factor if self.weights is None else _multiply_rows(self.weights, factor)
        return replace(self, weights=weights)

    def with_size(self, variable: str) -> tuple[Codes, int]:
        """Return a column with its number of codes."""
        codes = self.codes[variable]
        entities = self.entities.get(variable)
        size = int(codes.max(initial=-1)) + 1 if entities is None else entities.size
        return codes, size


def join_blocks(blocks: Sequence[Rows]) -> Rows:
    """Blocks of one operator as one; there is at least one."""
    if len(blocks) == 1:
        return blocks[0]
    first = blocks[0]
    weights = None
    if any(block.weights is not None for block in blocks):
        weights = np.concatenate([get_weights(block) for block in blocks])
    origins = [block.origin for block in blocks if block.origin is not None]
    return Rows(
        size=sum(block.size for block in blocks),
        codes={name: np.concatenate([b.codes[name] for b in blocks]) for name in first.codes},
        entities=first.entities,
        weights=weights,
        origin=np.concatenate(origins) if origins else None,
    )


def get_weights(rows: Rows) -> Longs:
    return np.ones(rows.size, dtype=np.int64) if rows.weights is None else rows.weights


def _multiply_rows(one: Longs, other: Longs) -> Longs:
    _require_countable(float((one.astype(np.float64) * other.astype(np.float64)).sum()))
    return one * other


def _require_countable(total: float) -> None:
    if total > _MAX_COUNTABLE:
        raise BadRequest("the match has more rows than can be counted")


def group_rows(rows: Rows) -> Groups:
    """Group equal rows."""
    return group(*_encode_row_keys(rows))


def _encode_row_keys(rows: Rows) -> tuple[Longs, int]:
    return combine_codes(_list_key_columns(rows), rows.size)


def _list_key_columns(rows: Rows) -> list[tuple[Integers, int]]:
    """The columns of codes by name, then where the row belongs, each with its number of codes."""
    columns: list[tuple[Integers, int]] = [rows.with_size(name) for name in sorted(rows.codes)]
    if rows.origin is not None:
        columns.append((rows.origin, int(rows.origin.max(initial=-1)) + 1))
    return columns


def merge_equal_rows(rows: Rows) -> Rows:
    """Equal rows as one, with their weights added, in no particular order."""
    if rows.size < 2:
        return rows
    if rows.weights is not None:
        _require_countable(float(rows.weights.sum(dtype=np.float64)))
    columns = _list_key_columns(rows)
    keys, domain = combine_codes(columns, rows.size)
    if is_dense(domain, rows.size):
        # The counts by key are the result: the rows need not be read again.
        counts = sum_groups(keys, rows.weights, domain)
        found = np.flatnonzero(counts)
        if len(found) == rows.size:
            return rows
        return _from_keys(rows, found, [size for _, size in columns], counts[found])
    groups = group(keys, domain)
    if groups.count == rows.size:
        return rows
    weights = sum_groups(groups.of_row, rows.weights, groups.count)
    return replace(rows.take(groups.first_row), weights=weights)


def _from_keys(rows: Rows, keys: Longs, sizes: Sequence[int], weights: Longs) -> Rows:
    """Decode rows from keys, one per key."""
    columns = split_codes(keys, sizes)
    origin = None if rows.origin is None else columns.pop()
    codes = dict(zip(sorted(rows.codes), columns, strict=True))
    return Rows(len(keys), codes, rows.entities, weights, origin)


def merge_blocks(blocks: Iterable[Rows]) -> Iterator[Rows]:
    """Merge equal rows, also across blocks, while that reduces their number."""
    waiting: list[Rows] = []
    size, pays = 0, True
    for block in blocks:
        if not pays:
            yield block
            continue
        waiting.append(merge_equal_rows(block))
        size += waiting[-1].size
        is_bounded = is_dense(_encode_row_keys(waiting[-1])[1], block.size)
        # A large block that merging did not reduce predicts the same for later ones, unless so few
        # distinct rows are possible that they must repeat.
        pays = is_bounded or block.size < _TELLING_ROWS or 2 * waiting[-1].size < block.size
        if size > 2 * BLOCK_ROWS or not pays:
            together = merge_equal_rows(join_blocks(waiting)) if pays else join_blocks(waiting)
            waiting = [together]
            if 2 * together.size > size and not is_bounded:
                yield from together.pieces(BLOCK_ROWS)
                waiting = []
            size = sum(rows.size for rows in waiting)
    if waiting:
        yield from merge_equal_rows(join_blocks(waiting)).pieces(BLOCK_ROWS)


def split_portions(counts: Longs) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows of about a block each when repeated; one row is never split."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + BLOCK_ROWS, side="right")))
        if int(ends[last - 1]) > before:
            yield first, last
        first = last


@dataclass(frozen=True, slots=True)
class Demand:
    """The variables required above; with `merge` equal rows may be merged into weights."""

    variables: frozenset[str]
    merge: bool = False

    def also(self, *variables: str) -> Demand:
        return replace(self, variables=self.variables | set(variables))

    def with_shape(self, rows: Rows) -> Rows:
        """A block without the columns that are not needed."""
        if rows.codes.keys() <= self.variables:
            return rows
        return rows.only(self.variables)


def list_outer_variables(inner: Node) -> frozenset[str]:
    """List the variables that a nested block uses from the outer rows."""
    if isinstance(inner, OuterRows):
        return frozenset(inner.variables)
    if isinstance(inner, AntiJoin | OptionalJoin):
        return list_outer_variables(inner.child)
    found: frozenset[str] = frozenset()
    for child in list_children(inner):
        found |= list_outer_variables(child)
    return found


def derive_child_requirements(node: Node, demand: Demand) -> Demand:
    """Return what a node requires of its child, given its own requirements."""
    match node:
        case Expand():
            needed = {node.source} | ({node.target} if node.closes else set())
            return demand.also(*needed)
        case FilterRows():
            return demand.also(*list_predicate_variables(node.predicate))
        case AntiJoin() | OptionalJoin():
            return demand.also(*list_outer_variables(node.inner))
        case _:
            return demand


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows are sorted by the ids of these variables; `is_total` if that leaves no ties."""

    variables: tuple[str, ...] = ()
    is_total: bool = False

    def then(self, *variables: str, total: bool = True) -> RowOrder:
        if not self.is_total:
            return self
        return RowOrder((*self.variables, *variables), total)

    def without(self, demand: Demand) -> RowOrder:
        """Return the order that remains when some columns are dropped."""
        for position, variable in enumerate(self.variables):
            if variable not in demand.variables:
                return RowOrder(self.variables[:position])
        return self


def find_row_order(node: Node, demand: Demand) -> RowOrder:
    """The order in which an operator returns its rows."""
    asked = derive_child_requirements(node, demand)
    match node:
        case NodeScan():
            order = (
                RowOrder((node.variable,), is_total=True) if len(node.types) == 1 else RowOrder()
            )
        case CrossJoin(left, right):
            first, second = find_row_order(left, asked), find_row_order(right, asked)
            order = first.then(*second.variables, total=second.is_total)
        case Expand():
            order = find_row_order(node.child, asked)
            if not node.closes:
                order = order.then(node.target, total=node.edge_variable is None)
            elif node.edge_variable is not None:
                order = RowOrder(order.variables)
        case FilterRows() | AntiJoin():
            order = find_row_order(node.child, asked)
        case OptionalJoin():
            order = RowOrder(find_row_order(node.child, asked).variables)
        case OuterRows() | Match() | Rank() | Project() | Aggregate() | Sort() | Slice():
            order = RowOrder()
        case _:
            assert_never(node)
    return order.without(demand)
