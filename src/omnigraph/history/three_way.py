"""Three-way comparison of a table by entity: the changes to apply, and the conflicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.history.ancestry import UNKNOWN, Choice, LocatedRows, find_rows
from omnigraph.history.equality import ROWS_AT_ONCE, Mask, compare_entities
from omnigraph.storage.tables import (
    ChangedKeys,
    PinnedTable,
    Table,
    find_changed_keys,
    find_unmoved,
)


class ConflictKind(StrEnum):
    """How two sides may contradict each other about one entity."""

    DIVERGENT_INSERT = "divergent_insert"
    DIVERGENT_UPDATE = "divergent_update"
    DELETE_VS_UPDATE = "delete_vs_update"


@dataclass(frozen=True, slots=True)
class TableSides:
    """The three versions of one table."""

    base: Table
    source: Table
    target: Table
    base_is_known: bool = True
    """Whether an absent base means that the entity was not there, or that nobody can tell."""

    def release_rows(self, most_bytes: int) -> int:
        """Forget the rows that were compared, but for those of the source if they are not larger.

        Gives the size of what is kept: these are written next.
        """
        self.base.forget_rows()
        self.target.forget_rows()
        size: int = sum(kept.rows.nbytes for kept in self.source.cached_rows)
        if size <= most_bytes:
            return size
        self.source.forget_rows()
        return 0


@dataclass(frozen=True, slots=True)
class Entities:
    """Ids with the address of their row in each version, null where there is none."""

    ids: pa.Array
    base: pa.Array
    source: pa.Array
    target: pa.Array

    def __len__(self) -> int:
        return len(self.ids)

    def filter(self, mask: Mask) -> Entities:
        kept = pa.array(mask)
        return Entities(*(getattr(self, name).filter(kept) for name in self.__slots__))

    def batches(self, rows: int = ROWS_AT_ONCE) -> Iterator[Entities]:
        for start in range(0, len(self), rows):
            yield Entities(*(getattr(self, name).slice(start, rows) for name in self.__slots__))

    @staticmethod
    def concatenate(parts: Sequence[Entities]) -> Entities:
        """All of them, by ascending id."""
        none = (pa.array([], pa.string()), *(pa.array([], pa.uint64()),) * 3)
        columns = [
            pa.concat_arrays([empty, *(getattr(one, name) for one in parts)])
            for name, empty in zip(Entities.__slots__, none, strict=True)
        ]
        order = pc.sort_indices(columns[0])
        return Entities(*(column.take(order) for column in columns))

    def has(self, side: str) -> Mask:
        return _to_mask(pc.is_valid(getattr(self, side)))

    def kinds(self, *, base_is_known: bool) -> list[ConflictKind]:
        """What to call a conflict about each of them, by where they are."""
        was_there = self.has("base") | (not base_is_known)
        return [
            ConflictKind.DELETE_VS_UPDATE
            if not (source and target)
            else (ConflictKind.DIVERGENT_UPDATE if base else ConflictKind.DIVERGENT_INSERT)
            for base, source, target in zip(
                was_there.tolist(),
                self.has("source").tolist(),
                self.has("target").tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True, slots=True)
class TableMerge:
    """What merging some entities of a table comes to, whose base is in one state."""

    sides: TableSides
    taken: Entities
    """Changed by the source alone; without a row there, they are deleted."""
    conflicts: Entities


class FindBase(Protocol):
    """Says what the base of entities is about which the newest common commits disagree."""

    def __call__(self, ids: pa.Array) -> tuple[Choice, Sequence[LocatedRows]]: ...


Verdicts = npt.NDArray[np.int8]
"""What becomes of each entity."""
Judge = Callable[[TableSides, Entities], Verdicts]
"""A function of a module that reads the rows of some entities and compares them."""
RunComparison = Callable[[Judge, TableSides, Entities], Verdicts]
"""What has any number of entities judged, some at a time."""

KEPT, TAKEN, CONFLICTING = np.int8(0), np.int8(1), np.int8(2)


def compare_locally(judge: Judge, sides: TableSides, some: Entities) -> Verdicts:
    """All of them in this process."""
    found = [judge(sides, one) for one in some.batches()]
    return np.concatenate([np.empty(0, np.int8), *found])


def merge_table(
    sides: TableSides,
    *,
    target_is_base: bool,
    other_bases: Sequence[Table] = (),
    find_base: FindBase | None = None,
    run: RunComparison = compare_locally,
) -> list[TableMerge]:
    """What the source changed, divided into what the target left alone and what it did not.

    A change that both sides made alike is no change any more. Where the histories have several
    newest common commits, `other_bases` are the other ones, and `find_base` says which state is
    the base of an entity about which they disagree: that gives a part for each such state.
    """
    source = find_changed_keys(sides.base, sides.source)
    target = _NO_KEYS
    if not target_is_base:
        # Most of them concern the target alone: they are not compared.
        target = find_changed_keys(sides.base, sides.target, ids_only=True)
    uncertain = _find_uncertain(sides.base, other_bases)
    parts = []
    if len(uncertain):
        assert find_base is not None, "who has several bases can tell between them"
        parts = _merge_uncertain(sides, uncertain, *find_base(uncertain))
        source, target = _exclude(source, uncertain), _exclude(target, uncertain)
    in_both = pc.is_in(source.ids, value_set=target.ids)
    alone = _find_changed_alone(sides, source.filter(pc.invert(in_both)), run)
    together = _pair_changes(source.filter(in_both), target)
    verdicts = run(judge_shared, sides, together)
    taken = Entities.concatenate([alone, together.filter(verdicts == TAKEN)])
    return [TableMerge(sides, taken, together.filter(verdicts == CONFLICTING)), *parts]


_NO_KEYS = ChangedKeys(
    pa.array([], pa.string()), pa.array([], pa.uint64()), pa.array([], pa.uint64())
)


def _find_uncertain(base: Table, others: Sequence[Table]) -> pa.Array:
    """The ids about which the newest common commits may disagree."""
    found = [find_changed_keys(base, other, ids_only=True).ids for other in others]
    return pc.unique(pa.concat_arrays(found)) if found else _NO_KEYS.ids


def _exclude(keys: ChangedKeys, ids: pa.Array) -> ChangedKeys:
    return keys.filter(pc.invert(pc.is_in(keys.ids, value_set=ids)))


def _merge_uncertain(
    sides: TableSides, ids: pa.Array, choice: Choice, states: Sequence[LocatedRows]
) -> list[TableMerge]:
    """The same for entities whose base was chosen from several states."""
    source, target = find_rows(sides.source, ids).addresses, find_rows(sides.target, ids).addresses
    parts = []
    for number in np.unique(choice):
        rows = pa.array(np.flatnonzero(choice == number))
        if number == UNKNOWN:
            found = replace(sides, base_is_known=False)
            base = pa.nulls(len(rows), pa.uint64())
        else:
            found = replace(sides, base=states[number].table)
            base = states[number].addresses.take(rows)
        some = Entities(ids.take(rows), base, source.take(rows), target.take(rows))
        verdicts = compare_locally(judge_shared, found, some)
        free, clashing = some.filter(verdicts == TAKEN), some.filter(verdicts == CONFLICTING)
        parts.append(
            TableMerge(found, Entities.concatenate([free]), Entities.concatenate([clashing]))
        )
    return parts


def _find_changed_alone(sides: TableSides, keys: ChangedKeys, run: RunComparison) -> Entities:
    """Those that the source really changed; the target has them as the base does."""
    found = Entities(keys.ids, keys.before, keys.after, keys.before)
    taken = found.filter(run(judge_alone, sides, found) == TAKEN)
    return replace(taken, target=_find_in_target(sides, taken))


def _find_in_target(sides: TableSides, some: Entities) -> pa.Array:
    """Where the target has entities that it did not change since the base."""
    if sides.target is sides.base:
        return some.base
    known = some.has("base")
    moved = known.copy()
    moved[known] = ~find_unmoved(sides.base, sides.target, some.base.drop_null())
    if not moved.any():
        return some.base
    found = find_rows(sides.target, some.ids.filter(pa.array(moved))).addresses
    assert not found.null_count, f"{sides.target!r} lost rows that it did not change"
    return pc.replace_with_mask(some.base, pa.array(moved), found)


def judge_alone(sides: TableSides, some: Entities) -> Verdicts:
    """Of entities that only the source has written: it really changed them, or put them again."""
    return np.where(_compare_sides(sides, some, "base", "source"), KEPT, TAKEN)


def _pair_changes(source: ChangedKeys, target: ChangedKeys) -> Entities:
    """Ids that both sides may have changed, with all three addresses."""
    places = pc.index_in(source.ids, value_set=target.ids)
    return Entities(source.ids, source.before, source.after, target.after.take(places))


def judge_shared(sides: TableSides, some: Entities) -> Verdicts:
    """Of entities that both sides have written: only the source changed it, or both, not alike."""
    if not sides.base_is_known:
        return np.where(_compare_sides(sides, some, "source", "target"), KEPT, CONFLICTING)
    changed = ~_compare_sides(sides, some, "base", "source")
    left = _compare_sides(sides, some, "base", "target")
    verdicts = np.where(changed & left, TAKEN, KEPT)
    both = changed & ~left
    differ = ~_compare_sides(sides, some.filter(both), "source", "target")
    verdicts[np.flatnonzero(both)[differ]] = CONFLICTING
    return verdicts


def _compare_sides(sides: TableSides, some: Entities, one: str, other: str) -> Mask:
    return compare_entities(
        getattr(sides, one), getattr(some, one), getattr(sides, other), getattr(some, other)
    )


def _to_mask(values: pa.Array) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


ENTITIES_PER_TASK = 65_536
LARGE_DELTA = 262_144
"""From so many entities on, spreading the work is worth its start."""

Spec = TypeVar("Spec")
Task = TypeVar("Task")
Result = TypeVar("Result")


class RunsTasks(Protocol):
    """Where tasks run."""

    def run(
        self,
        kernel: Callable[[Spec, Task], Result],
        tasks: Sequence[Task],
        spec: Spec,
        *,
        stage: str = "",
    ) -> list[Result]: ...


@dataclass(frozen=True, slots=True)
class ComparisonSpec:
    """What all tasks share: plain data."""

    judge: Judge
    base: PinnedTable
    source: PinnedTable
    target: PinnedTable

    def open(self) -> TableSides:
        return TableSides(self.base.open(), self.source.open(), self.target.open())


def compare_on_spark(tasks: Callable[[], RunsTasks], *, at_least: int = 0) -> RunComparison:
    """Judges in tasks where there are at least so many entities, and fewer here.

    `tasks` is asked where they run when the first are needed.
    """

    def run(judge: Judge, sides: TableSides, some: Entities) -> Verdicts:
        if not len(some) or len(some) < at_least:
            return compare_locally(judge, sides, some)
        versions = (PinnedTable.of(one) for one in (sides.base, sides.source, sides.target))
        packed = [_pack(one) for one in some.batches(ENTITIES_PER_TASK)]
        found = tasks().run(
            compare_packed, packed, ComparisonSpec(judge, *versions), stage="comparing"
        )
        return np.concatenate([np.frombuffer(one, np.int8) for one in found])

    return run


def compare_packed(spec: ComparisonSpec, packed: bytes) -> bytes:
    """The verdicts on some entities, a byte each."""
    return compare_locally(spec.judge, spec.open(), _unpack(packed)).tobytes()


def _pack(some: Entities) -> bytes:
    """Just these entities: pickling a part of an array would take along all of it."""
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
