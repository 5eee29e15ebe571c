"""Read staged rows for kernels, in buckets by a stable hash, and encode their small results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.constraints.table_changes import REPORTED, get_column, mask_remaining
from omnigraph.errors import Violation
from omnigraph.pipeline.staging_area import AT, REJECTS, ROW_OUTCOMES, Staged
from omnigraph.storage.tables import ROW_ADDRESS, Table, TableLocation, write_fragments

Hashes = npt.NDArray[np.uint64]

_MULTIPLIER = 0x9E3779B97F4A7C15
_SHIFT = np.uint64(33)
_MIXERS = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53))


def hash_strings(keys: pa.Array) -> Hashes:
    """Hash each string; NULL counts as the empty string."""
    binary = keys.cast(pa.large_binary()).fill_null(b"")
    if not len(binary):
        return np.empty(0, np.uint64)
    _, offsets_buffer, data_buffer = binary.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[binary.offset :][: len(binary) + 1]
    lengths = np.diff(offsets)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    indices = np.arange(len(data)) - np.repeat(starts, lengths)
    # A polynomial of the bytes, all of them at once; overflow wraps, and is meant to.
    terms = (data.astype(np.uint64) + np.uint64(1)) * _compute_powers(int(lengths.max()))[indices]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return _mix_hashes(sums[starts + lengths] - sums[starts])


def _compute_powers(count: int) -> Hashes:
    factors = np.full(max(1, count), _MULTIPLIER, np.uint64)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint64)


def _mix_hashes(hashes: Hashes) -> Hashes:
    """Mix every bit of a hash into every bit of the result."""
    for mixer in _MIXERS:
        hashes = (hashes ^ (hashes >> _SHIFT)) * mixer
    return hashes ^ (hashes >> _SHIFT)


FRAGMENT_BITS = 32


@dataclass(frozen=True, slots=True)
class Bucket:
    """One of several shares of all keys, by their hash."""

    number: int = 0
    of: int = 1

    def mask(self, keys: pa.Array) -> pa.Array | None:
        """Return a mask of the keys of this bucket; None stands for all of them."""
        if self.of == 1:
            return None
        hashed = hash_strings(keys)
        return pa.array(hashed % np.uint64(self.of) == np.uint64(self.number))

    def keep(self, rows: pa.Table, by: str | Callable[[pa.Table], pa.Array]) -> pa.Table:
        if self.of == 1 or not rows.num_rows:
            return rows
        mask = self.mask(get_column(rows, by) if isinstance(by, str) else by(rows))
        return rows if mask is None else rows.filter(mask)


ALL = Bucket()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSpec:
    """Settings shared by every task that checks a rule."""

    ir: str
    rejects: TableLocation | None = None
    """Table of rejects for all violations, if requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFindings:
    """Violations: their number, the first ones in order, and the rows they drop."""

    total: int = 0
    first: tuple[Violation, ...] = ()
    row_outcomes: tuple[str, ...] = ()
    """Table of outcomes that lists dropped rows."""
    rejects: tuple[str, ...] = ()


NO_FINDINGS = RuleFindings()


def encode_findings(
    found: Iterable[Violation], rejects: TableLocation | None, row_outcomes: tuple[str, ...] = ()
) -> RuleFindings:
    """Encode the violations of a rule: counted, the first ones retained, all written on request."""
    if rejects is None:
        total, first = count_findings(found)
        return RuleFindings(total=total, first=first, row_outcomes=row_outcomes)
    everything = list(found)
    return RuleFindings(
        total=len(everything),
        first=tuple(everything[:REPORTED]),
        row_outcomes=row_outcomes,
        rejects=write_rejects(rejects, everything),
    )


def write_rejects(rejects: TableLocation | None, found: Sequence[Violation]) -> tuple[str, ...]:
    """Write violations as rows of the table of rejects."""
    if rejects is None or not found:
        return ()
    rows = [
        {
            "at": violation.position,
            "code": str(violation.kind),
            "reason": violation.message,
            "type_key": violation.type_key,
            "id": violation.id,
        }
        for violation in found
    ]
    return tuple(write_fragments(rejects, pa.Table.from_pylist(rows, REJECTS)))


def read_staged_rows(
    staged: Staged,
    columns: Sequence[str],
    *,
    fragments: Sequence[int] | None = None,
    bucket: Bucket = ALL,
    by: str | Callable[[pa.Table], pa.Array] = "id",
) -> pa.Table:
    """Read the staged rows that are not dropped, with positions and addresses, in input order.

    `by` is the column, or computes the column, that determines the bucket of a row. Only rows of
    the bucket are kept in memory.
    """
    wanted = [*columns, AT] if AT not in columns else list(columns)
    batches = staged.table.batches(wanted, with_row_address=True, fragments=fragments)
    tables = [bucket.keep(pa.Table.from_batches([batch]), by) for batch in batches]
    if not tables:
        schema = pa.schema([staged.table.schema.field(name) for name in wanted])
        return schema.append(pa.field(ROW_ADDRESS, pa.uint64())).empty_table()
    rows = pa.concat_tables(tables)
    gone = read_dropped_addresses(staged.row_outcomes, fragments)
    return rows.filter(mask_remaining(get_column(rows, ROW_ADDRESS), gone)) if len(gone) else rows


def read_staged_ids(staged: Staged | None, bucket: Bucket = ALL) -> pa.Array:
    """Read the ids of the staged rows that are not dropped."""
    if staged is None:
        return pa.array([], pa.string())
    if not staged.row_outcomes:
        batches = staged.table.batches(["id"])
        kept = [bucket.keep(pa.Table.from_batches([batch]), "id") for batch in batches]
        return get_column(pa.concat_tables(kept), "id") if kept else pa.array([], pa.string())
    return get_column(read_staged_rows(staged, ["id"], bucket=bucket), "id")


def filter_staged(staged: Staged, ids: pa.Array) -> pa.Array:
    """Return the ids that the load writes, by a lookup in the staged rows."""
    found = staged.table.lookup("id", ids, ["id", ROW_ADDRESS])
    gone = read_dropped_addresses(staged.row_outcomes)
    if len(gone) and found.num_rows:
        found = found.filter(mask_remaining(get_column(found, ROW_ADDRESS), gone))
    return get_column(found, "id")


def read_dropped_addresses(
    row_outcomes: Iterable[Table], fragments: Sequence[int] | None = None
) -> pa.Array:
    where = _mask_fragments("fragment", fragments)
    filter = f"is_dropped AND {where}" if where else "is_dropped"
    found = [get_column(table.scan(["address"], filter), "address") for table in row_outcomes]
    return pa.concat_arrays(found) if found else pa.array([], pa.uint64())


def read_replacements(
    row_outcomes: Iterable[Table],
    columns: Sequence[str],
    *,
    fragments: Sequence[int] | None = None,
    by: str = "fragment",
) -> pa.Table:
    """Read the staged rows that replace committed ones; `by` names the column of the fragments.

    A row that another table drops replaces nothing.
    """
    tables = list(row_outcomes)
    where = _mask_fragments(by, fragments)
    filter = f"NOT is_dropped AND {where}" if where else "NOT is_dropped"
    schema = pa.schema([ROW_OUTCOMES.field(name) for name in dict.fromkeys([*columns, "address"])])
    found = [table.scan(schema.names, filter).cast(schema) for table in tables]
    rows = pa.concat_tables([schema.empty_table(), *found])
    if len(tables) > 1 and rows.num_rows:
        rows = rows.filter(
            mask_remaining(get_column(rows, "address"), read_dropped_addresses(tables))
        )
    return rows.select(list(columns))


def read_rows_at(staged: Staged, addresses: pa.Array, columns: Sequence[str]) -> pa.Table:
    """Read the staged rows at addresses, with their positions, by a scan of their fragments."""
    wanted = [*columns, AT]
    schema = pa.schema([staged.table.schema.field(name) for name in wanted])
    schema = schema.append(pa.field(ROW_ADDRESS, pa.uint64()))
    if not len(addresses):
        return schema.empty_table()
    fragments = sorted(set(list_fragments(addresses).to_pylist()))
    batches = staged.table.batches(wanted, with_row_address=True, fragments=fragments)
    found = [
        batch.filter(pc.is_in(batch.column(ROW_ADDRESS), value_set=addresses)) for batch in batches
    ]
    return pa.Table.from_batches(found).select(schema.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTask:
    """Staged rows, of which all may have been dropped."""

    staged: Staged


def count_rows(spec: None, task: CountTask) -> int:
    """Count the staged rows that are not dropped."""
    del spec
    gone = read_dropped_addresses(task.staged.row_outcomes)
    return task.staged.rows - int(pc.count_distinct(gone).as_py())


def _mask_fragments(name: str, fragments: Sequence[int] | None) -> str | None:
    return None if fragments is None else f"{name} IN ({', '.join(map(str, fragments))})"


def write_row_outcomes(location: TableLocation, row_outcomes: pa.Table) -> tuple[str, ...]:
    if not row_outcomes.num_rows:
        return ()
    return tuple(write_fragments(location, row_outcomes.cast(ROW_OUTCOMES)))


def drop_rows(location: TableLocation | None, addresses: pa.Array) -> tuple[str, ...]:
    """Write outcomes that drop rows; nothing without a location."""
    if location is None or not len(addresses):
        return ()
    return write_row_outcomes(location, encode_dropped(addresses))


def encode_dropped(addresses: pa.Array) -> pa.Table:
    count = len(addresses)
    return pa.table(
        [
            list_fragments(addresses),
            addresses,
            pa.repeat(pa.scalar(True), count),
            *(pa.nulls(count, field.type) for field in list(ROW_OUTCOMES)[3:]),
        ],
        schema=ROW_OUTCOMES,
    )


def list_fragments(addresses: pa.Array) -> pa.Array:
    shifted = addresses.to_numpy(zero_copy_only=False) >> np.uint64(FRAGMENT_BITS)
    return pa.array(shifted.astype(np.int32))


def count_findings(
    found: Iterable[Violation], limit: int = REPORTED
) -> tuple[int, tuple[Violation, ...]]:
    """Count violations and retain the first ones."""
    first: list[Violation] = []
    total = 0
    for violation in found:
        if total < limit:
            first.append(violation)
        total += 1
    return total, tuple(first)


def compute_addresses(rows: pa.Table, positions: Iterable[int | None]) -> pa.Array:
    """Return the addresses of the rows at positions of the input."""
    wanted = pa.array([at for at in positions if at is not None], pa.int64())
    return get_column(rows, ROW_ADDRESS).filter(pc.is_in(get_column(rows, AT), value_set=wanted))
