"""Three-way comparison of a table: the changes to apply, and the conflicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.property_merge import (
    CombinedRows,
    compare_by_entity,
    compare_by_property,
    compare_sides,
)
from omnigraph.history.table_sides import (
    APPLY,
    COMBINE,
    CONFLICT,
    UNCHANGED,
    Entities,
    Granularity,
    TableSides,
    Verdicts,
    find_rows,
)
from omnigraph.history.virtual_base import FindBase
from omnigraph.storage.tables import (
    ChangedKeys,
    PinnedTable,
    Table,
    find_changed_keys,
    find_unmoved,
)


@dataclass(frozen=True, slots=True)
class TableMerge:
    """The outcome for the entities of a table that share one base."""

    sides: TableSides
    taken: Entities
    """Changed by the source alone; without a row there, deleted."""
    conflicts: Entities
    combined: CombinedRows
    """Changed by both sides, in different properties."""


ENTITIES_PER_BASE = 65_536
"""Number of entities whose virtual base is found at once."""

Comparison = Callable[[TableSides, Entities], Verdicts]
"""A function of a module that reads the rows of some entities and compares them."""
RunComparison = Callable[[Comparison, TableSides, Entities], Verdicts]
"""Compares any number of entities, in batches."""


def compare_locally(compare: Comparison, sides: TableSides, some: Entities) -> Verdicts:
    """Compare all of them in this process."""
    found = [compare(sides, one) for one in some.batches()]
    return np.concatenate(found or [compare(sides, some)])


def merge_table(
    sides: TableSides,
    *,
    target_is_base: bool,
    other_bases: Sequence[Table] = (),
    find_base: FindBase | None = None,
    granularity: Granularity = Granularity.PROPERTY,
    run: RunComparison = compare_locally,
) -> list[TableMerge]:
    """Split the source's changes into those to apply, those to combine, and conflicts.

    Equal changes of both sides cancel out. If the histories have several
    newest common commits, `other_bases` are the other ones, and `find_base` finds the virtual base
    of entities on which they disagree, which are merged separately.
    """
    compare = _COMPARISONS[granularity]
    base = sides.base_version
    source = find_changed_keys(base, sides.source)
    target = _NO_KEYS
    if not target_is_base:
        # Most of them concern the target alone: they are not compared.
        target = find_changed_keys(base, sides.target, ids_only=True)
    uncertain = _find_uncertain(base, other_bases)
    parts = []
    if len(uncertain):
        assert find_base is not None, "who has several bases can tell between them"
        parts = [
            part
            for start in range(0, len(uncertain), ENTITIES_PER_BASE)
            for part in _merge_uncertain(
                sides, uncertain.slice(start, ENTITIES_PER_BASE), compare, find_base
            )
        ]
        source, target = _exclude(source, uncertain), _exclude(target, uncertain)
    in_both = pc.is_in(source.ids, value_set=target.ids)
    alone = _find_changed_alone(sides, source.filter(pc.invert(in_both)), run)
    together = _pair_changes(source.filter(in_both), target)
    return [_divide(sides, alone, together, run(compare, sides, together)), *parts]


_COMPARISONS: Mapping[Granularity, Comparison] = {
    Granularity.PROPERTY: compare_by_property,
    Granularity.ENTITY: compare_by_entity,
}


def _divide(
    sides: TableSides, alone: Entities, together: Entities, verdicts: Verdicts
) -> TableMerge:
    action = verdicts[:, 0]
    combined = action == COMBINE
    return TableMerge(
        sides,
        Entities.concatenate([alone, together.filter(action == APPLY)]),
        together.filter(action == CONFLICT),
        CombinedRows(sides, together.filter(combined), verdicts[combined, 1:]),
    )


_NO_KEYS = ChangedKeys(
    pa.array([], pa.string()), pa.array([], pa.uint64()), pa.array([], pa.uint64())
)


def _find_uncertain(base: Table, others: Sequence[Table]) -> pa.Array:
    """Find the ids on which the newest common commits may disagree."""
    found = [find_changed_keys(base, other, ids_only=True).ids for other in others]
    return pc.unique(pa.concat_arrays(found)) if found else _NO_KEYS.ids


def _exclude(keys: ChangedKeys, ids: pa.Array) -> ChangedKeys:
    return keys.filter(pc.invert(pc.is_in(keys.ids, value_set=ids)))


def _merge_uncertain(
    sides: TableSides, ids: pa.Array, compare: Comparison, find_base: FindBase
) -> list[TableMerge]:
    """Merge entities with a virtual base, and separately those without one."""
    base = find_base(ids)
    source, target = find_rows(sides.source, ids).addresses, find_rows(sides.target, ids).addresses
    every, nothing = Entities(ids, base.addresses, source, target), Entities.concatenate([])
    parts = []
    for known, found in (
        (base.is_known, replace(sides, base=base.rows)),
        (~base.is_known, replace(sides, base_is_known=False)),
    ):
        if known.any():
            some = every.filter(known)
            verdicts = compare_locally(compare, found, some)
            parts.append(_divide(found, nothing, some, verdicts))
    return parts


def _find_changed_alone(sides: TableSides, keys: ChangedKeys, run: RunComparison) -> Entities:
    """Find the entities that the source changed and the target did not."""
    found = Entities(keys.ids, keys.before, keys.after, keys.before)
    taken = found.filter(run(compare_alone, sides, found)[:, 0] == APPLY)
    return replace(taken, target=_find_in_target(sides, taken))


def _find_in_target(sides: TableSides, some: Entities) -> pa.Array:
    """Find the addresses, in the target, of entities that it did not change since the base."""
    if sides.target is sides.base:
        return some.base
    known = some.has("base")
    moved = known.copy()
    moved[known] = ~find_unmoved(sides.base_version, sides.target, some.base.drop_null())
    if not moved.any():
        return some.base
    found = find_rows(sides.target, some.ids.filter(pa.array(moved))).addresses
    assert not found.null_count, f"{sides.target!r} lost rows that it did not change"
    return pc.replace_with_mask(some.base, pa.array(moved), found)


def compare_alone(sides: TableSides, some: Entities) -> Verdicts:
    """Compare entities that only the source has written, perhaps with unchanged values."""
    same = compare_sides(sides, some, "base", "source")
    return np.where(same, UNCHANGED, APPLY)[:, np.newaxis]


def _pair_changes(source: ChangedKeys, target: ChangedKeys) -> Entities:
    """Join the ids that both sides may have changed with their three addresses."""
    offsets = pc.index_in(source.ids, value_set=target.ids)
    return Entities(source.ids, source.before, source.after, target.after.take(offsets))


ENTITIES_PER_TASK = 65_536
LARGE_DELTA = 262_144
"""From this many entities, distributing the comparison pays off."""

Spec = TypeVar("Spec")
Task = TypeVar("Task")
Result = TypeVar("Result")


class RunsTasks(Protocol):
    """An executor of tasks."""

    def run(
        self,
        kernel: Callable[[Spec, Task], Result],
        tasks: Sequence[Task],
        spec: Spec,
        *,
        stage: str = "",
    ) -> list[Result]: ...


@dataclass(frozen=True, slots=True)
class _PinnedSide:
    """A version of a table, with the columns that were added to it, as plain data."""

    version: PinnedTable
    like: PinnedTable | None
    values: Mapping[str, object]

    @classmethod
    def of(cls, table: Table) -> _PinnedSide:
        wide = table.widening
        like = None if wide is None else PinnedTable.of(wide.like)
        return cls(PinnedTable.of(table), like, {} if wide is None else dict(wide.values))

    def open(self) -> Table:
        table = self.version.open()
        return table if self.like is None else table.widen(self.like.open(), self.values)


@dataclass(frozen=True, slots=True)
class ComparisonSpec:
    """The part of the specification shared by all tasks: plain data."""

    compare: Comparison
    base: _PinnedSide
    source: _PinnedSide
    target: _PinnedSide

    def open(self) -> TableSides:
        return TableSides(self.base.open(), self.source.open(), self.target.open())


def compare_on_spark(tasks: Callable[[], RunsTasks], *, at_least: int = 0) -> RunComparison:
    """Compare on Spark from a number of entities on, and fewer in this process.

    `tasks` is called on first use.
    """

    def run(compare: Comparison, sides: TableSides, some: Entities) -> Verdicts:
        if not len(some) or len(some) < at_least:
            return compare_locally(compare, sides, some)
        versions = (_PinnedSide.of(one) for one in (sides.base_version, sides.source, sides.target))
        batches = list(some.batches(ENTITIES_PER_TASK))
        found = tasks().run(
            compare_packed,
            [_pack(one) for one in batches],
            ComparisonSpec(compare, *versions),
            stage="comparing",
        )
        return np.concatenate(
            [
                np.frombuffer(verdicts, np.uint8).reshape(len(batch), -1)
                for batch, verdicts in zip(batches, found, strict=True)
            ]
        )

    return run


def compare_packed(spec: ComparisonSpec, packed: bytes) -> bytes:
    """Return the verdicts on some entities, row by row."""
    return compare_locally(spec.compare, spec.open(), _unpack(packed)).tobytes()


def _pack(some: Entities) -> bytes:
    """Encode just these entities: pickling a part of an array would take along all of it."""
    columns = {name: getattr(some, name) for name in Entities.__slots__}
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpack(packed: bytes) -> Entities:
    batch = pa.ipc.open_stream(packed).read_next_batch()
    return Entities(*(batch.column(name) for name in Entities.__slots__))
