"""The difference of two states of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from omnigraph.history.entity_changes import (
    ALL_CHANGES,
    ChangeBatch,
    ChangeFilter,
    State,
    TypePair,
    compare_tables,
    iterate_changes,
    pair_types,
)
from omnigraph.identity import EntityKind
from omnigraph.wire.change_results import DiffStats, EntityChange, TypeStats

_ROWS_READ_AHEAD = 16_384
_UNCHANGED = pa.schema([("id", pa.string()), ("op", pa.string())])
"""Schema of the changes of a type when there are none."""


class Diff:
    """The differences between two states of a graph, read on demand.

    >>> before = graph.commits()[0].commit_id
    >>> _ = graph.mutate('query q() { update Person set { age: 37 } where name = "Ada" }')
    >>> diff = graph.diff(before, "main", images=True)
    >>> [(change.op, change.id, change.after.properties["age"]) for change in diff]
    [(<Op.UPDATE: 'update'>, 'Ada', 37)]
    >>> diff.stats["Person"].updated
    1
    """

    def __init__(
        self,
        before: State,
        after: State,
        *,
        images: bool = False,
        wanted: ChangeFilter = ALL_CHANGES,
    ) -> None:
        wanted.check_types(before.catalog, after.catalog)
        self.before, self.after, self.images, self._wanted = before, after, images, wanted

    def __repr__(self) -> str:
        before, after = self.snapshot_ids
        return f"{type(self).__name__}({before!r}, {after!r})"

    @property
    def snapshot_ids(self) -> tuple[str, str]:
        """The ids of the two snapshots, earlier side first."""
        return self.before.snapshot.id, self.after.snapshot.id

    def __iter__(self) -> Iterator[EntityChange]:
        """Yield every change: nodes before edges, types and entities by name and id."""
        for batch in self.batches():
            yield from iterate_changes(batch)

    def batches(self) -> Iterator[ChangeBatch]:
        """Yield the changes in batches of Arrow columns."""
        for pair in self._pairs:
            yield from compare_tables(
                pair, self._wanted, images=self.images, ahead=_ROWS_READ_AHEAD
            )

    @cached_property
    def _pairs(self) -> list[TypePair]:
        pairs = pair_types(self.before, self.after, wanted=self._wanted, tables_may_come=True)
        return sorted(pairs, key=lambda one: (one.type_.kind is EntityKind.EDGE, one.type_.name))

    @cached_property
    def stats(self) -> Mapping[str, TypeStats]:
        """Count the inserted, updated and deleted entities of each changed type."""
        found = (_count_changes(pair, self._wanted) for pair in self._pairs)
        return {one.type_name: one for one in found if one.total}

    @property
    def is_empty(self) -> bool:
        return next(self.batches(), None) is None

    def to_arrow(self) -> Mapping[str, pa.Table]:
        """The changes of each type as a table: `id`, `op` and, with images, both rows.

        A row is a struct with a member for each column of the type, or null.
        """
        tables: dict[str, list[pa.Table]] = {}
        for batch in self.batches():
            tables.setdefault(batch.type_.name, []).append(_build_table(batch))
        return {name: pa.concat_tables(parts) for name, parts in tables.items()}

    def count(self) -> DiffStats:
        """Return the two snapshots, and the number of changed entities of each type."""
        return DiffStats(*self.snapshot_ids, tuple(self.stats.values()))


def list_rows_of_diff(found: Diff) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns of the changes of one type, and an iterator over batches of them."""
    tables = (_build_table(batch) for batch in found.batches())
    first = next(tables, None)
    if first is None:
        return _UNCHANGED, iter(())
    whole = chain([first], tables)
    return first.schema, chain.from_iterable(table.to_batches() for table in whole)


def _count_changes(pair: TypePair, wanted: ChangeFilter) -> TypeStats:
    inserted = updated = deleted = 0
    for batch in compare_tables(pair, wanted, images=False):
        inserted += int(np.count_nonzero(~batch.has_before))
        deleted += int(np.count_nonzero(~batch.has_after))
        updated += int(np.count_nonzero(batch.has_before & batch.has_after))
    return TypeStats(pair.type_.kind, pair.type_.name, inserted, updated, deleted)


def _build_table(batch: ChangeBatch) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "id": batch.ids,
        "op": pa.array([str(op) for op in batch.ops()], pa.string()),
    }
    for name, rows, has in (
        ("before", batch.before, batch.has_before),
        ("after", batch.after, batch.has_after),
    ):
        if rows is not None:
            columns[name] = _spread(rows, has)
    return pa.table(columns)


def _spread(rows: pa.Table, has: np.ndarray) -> pa.Array:
    """Build structs of the rows at the positions of their changes, null elsewhere."""
    dense = rows.to_struct_array()
    whole = dense.combine_chunks() if isinstance(dense, pa.ChunkedArray) else dense
    offsets = np.cumsum(has) - 1
    return whole.take(pa.array(offsets, mask=~has))
