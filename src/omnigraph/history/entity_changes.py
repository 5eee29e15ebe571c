"""Changes of entities between two states of a graph, in a deterministic order.

They are read as batches of columns; a single change is a value with a JSON form.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequest, ChangeSchemaBoundary, TypeNotFound
from omnigraph.execution.stored_rows import build_logical_schema, convert_from_table_rows
from omnigraph.history.equality import compare_images, read_images
from omnigraph.identity import EntityKind, TableIdentity
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import ChangedKeys, Table, find_changed_keys, read_rows_at_addresses
from omnigraph.types.to_json import encode_image_values
from omnigraph.wire.change_results import Endpoints, EntityChange, Image, NamedType, Op

ROWS_PER_BATCH = 4_096

Mask = npt.NDArray[np.bool_]
FindKeys = Callable[[Table | None, Table | None], ChangedKeys]


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """A filter of changes; an empty set matches all."""

    kinds: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    ops: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for what, given, known in (("kind", self.kinds, EntityKind), ("op", self.ops, Op)):
            for one in sorted(given - set(known)):
                raise BadRequest(f"{what} '{one}' is not one of {', '.join(known)}")

    def admits(self, type_: NodeType | EdgeType) -> bool:
        is_kind = not self.kinds or type_.kind in self.kinds
        return is_kind and (not self.types or type_.name in self.types)

    def check_types(self, *catalogs: Catalog) -> None:
        """Raise if no catalog has one of the types."""
        known = {type_.name for one in catalogs for type_ in one.by_table_key.values()}
        for name in sorted(self.types - known):
            raise TypeNotFound(name, f"the schema has no type '{name}'")

    @property
    def digest(self) -> str:
        """Return a text that equal filters share, and others do not."""
        kinds = [] if self.kinds == set(EntityKind) else sorted(self.kinds)
        ops = [] if self.ops == set(Op) else sorted(self.ops)
        text = "\x1f".join(["\x1e".join(part) for part in (kinds, sorted(self.types), ops)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


ALL_CHANGES = ChangeFilter()


@dataclass(frozen=True)
class State:
    """A snapshot and the schema its rows follow."""

    snapshot: Snapshot
    catalog: Catalog


@dataclass(frozen=True)
class ChangeBatch:
    """Changes of one type by ascending id. The rows of a side are those that exist, in order."""

    type_: NodeType | EdgeType
    type_id: str
    ids: pa.Array
    has_before: Mask
    has_after: Mask
    before: pa.Table | None = None
    after: pa.Table | None = None
    ends: pa.Table | None = None
    """Of edges without images: `src` and `dst`, current or former."""

    def __len__(self) -> int:
        return len(self.ids)

    def ops(self) -> list[Op]:
        codes = self.has_before.astype(np.int8) + 2 * self.has_after.astype(np.int8)
        names = {1: Op.DELETE, 2: Op.INSERT, 3: Op.UPDATE}
        return [names[code] for code in codes.tolist()]


class ComparedTables(Protocol):
    """A type and its tables before and after, opened on demand."""

    @property
    def type_(self) -> NodeType | EdgeType: ...

    @property
    def type_id(self) -> str: ...

    @property
    def is_same(self) -> bool: ...

    def table_before(self) -> Table | None: ...

    def table_after(self) -> Table | None: ...


@dataclass(frozen=True)
class TypePair:
    """A type in two states, with the table it has in each, if any."""

    type_: NodeType | EdgeType
    type_id: str
    before: TableEntry | None
    after: TableEntry | None
    snapshot: Snapshot
    """One of the two states, which are of one graph."""

    @property
    def is_same(self) -> bool:
        return self.before == self.after

    def table_before(self) -> Table | None:
        return None if self.before is None else self.snapshot.open_entry(self.before)

    def table_after(self) -> Table | None:
        return None if self.after is None else self.snapshot.open_entry(self.after)


def derive_type_id(domain: str, identity: TableIdentity) -> str:
    """Return an opaque id of a type, which a rename does not change."""
    stable = identity.stable_table_id.to_bytes(8, "little")
    incarnation = identity.table_incarnation_id.to_bytes(8, "little")
    text = b"\x1f".join([domain.encode(), stable, incarnation])
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()


def pair_types(
    before: State | None, after: State, *, wanted: ChangeFilter, tables_may_come: bool
) -> list[TypePair]:
    """Pair the types of two states in a deterministic order, with their tables.

    Every type is checked, whatever the filter, before any pair is returned.

    Raises:
        ChangeSchemaBoundary: the columns of a type differ or, unless `tables_may_come`, a type
            with rows is in one state only.
    """
    old = {} if before is None else _index_by_identity(before)
    new = _index_by_identity(after)
    pairs = []
    for identity in old.keys() | new.keys():
        was, now = old.get(identity), new.get(identity)
        type_ = now[0] if now is not None else was[0]  # type: ignore[index]
        _check_boundary(was, now, after, tables_may_come=tables_may_come or before is None)
        if wanted.admits(type_):
            pairs.append(
                TypePair(
                    type_,
                    derive_type_id(after.catalog.identity_domain, identity),
                    was[1] if was else None,
                    now[1] if now else None,
                    after.snapshot,
                )
            )
    return sorted(pairs, key=lambda pair: (pair.type_.kind is EntityKind.EDGE, pair.type_id))


Typed = tuple[NodeType | EdgeType, TableEntry]


def _index_by_identity(state: State) -> dict[TableIdentity, Typed]:
    entries = state.snapshot.entries
    return {t.identity: (t, entries[key]) for key, t in state.catalog.by_table_key.items()}


_BOUNDARY_ADVICE = "compare states that have one schema; a feed goes on from a baseline after it"


def _check_boundary(
    was: Typed | None, now: Typed | None, after: State, *, tables_may_come: bool
) -> None:
    if was is not None and now is not None:
        is_boundary = not build_logical_schema(was[0]).equals(build_logical_schema(now[0]))
    else:
        lone = was or now
        assert lone is not None, "an identity comes from one of the states"
        is_boundary = lone[1].row_count > 0 and not tables_may_come
    if is_boundary:
        name = (now or was)[0].name  # type: ignore[index]
        raise ChangeSchemaBoundary(after.snapshot.id, name, _BOUNDARY_ADVICE)


def compare_tables(
    pair: ComparedTables,
    wanted: ChangeFilter,
    *,
    images: bool,
    beyond: Callable[[pa.Array], int] | None = None,
    rows: int = ROWS_PER_BATCH,
    ahead: int = 0,
    find_keys: FindKeys = find_changed_keys,
) -> Iterator[ChangeBatch]:
    """Yield the changes of one type in batches.

    Args:
        pair: The type and its tables.
        wanted: Only these changes.
        images: Whether whole rows are read; otherwise only the ends of edges are.
        beyond: Returns how many of some ascending ids precede the first wanted one.
        rows: The maximum number of changes of a batch.
        ahead: If there are no more changes than this, all their rows are read at once.
        find_keys: Returns the ids to compare, perhaps from a cache.
    """
    if pair.is_same:
        return
    before, after = pair.table_before(), pair.table_after()
    if images:
        # Rows are read to be compared, and then again to be shown.
        most = max(rows, ahead)
        before = None if before is None else before.remember_rows(most)
        after = None if after is None else after.remember_rows(most)
    keys = find_keys(before, after)
    start = 0 if beyond is None else beyond(keys.ids)
    for at in range(start, len(keys), rows):
        some = keys.slice(at, min(rows, len(keys) - at))
        batch = _compare_batch(pair, before, after, some, wanted, images=images)
        if len(batch):
            yield batch


def _compare_batch(
    pair: ComparedTables,
    before: Table | None,
    after: Table | None,
    keys: ChangedKeys,
    wanted: ChangeFilter,
    *,
    images: bool,
) -> ChangeBatch:
    has_before, has_after = _mask_valid(keys.before), _mask_valid(keys.after)
    keep = _is_wanted(wanted, has_before, has_after)
    both = np.flatnonzero(has_before & has_after & keep)
    if len(both):
        assert before is not None and after is not None  # noqa: PT018 - both have addresses
        columns = build_logical_schema(pair.type_).names  # a reader may not see all of the table's
        old, new = (
            read_images(table, addresses.take(pa.array(both)), columns)
            for table, addresses in ((before, keys.before), (after, keys.after))
        )
        keep[both[compare_images(old, new)]] = False
    keys, has_before, has_after = keys.filter(pa.array(keep)), has_before[keep], has_after[keep]
    batch = ChangeBatch(pair.type_, pair.type_id, keys.ids, has_before, has_after)
    if not len(batch):
        return batch
    if images:
        rows_before = _read_rows(before, keys.before.drop_null(), pair.type_)
        rows_after = _read_rows(after, keys.after.drop_null(), pair.type_)
        return ChangeBatch(
            pair.type_, pair.type_id, keys.ids, has_before, has_after, rows_before, rows_after
        )
    if pair.type_.kind is EntityKind.EDGE:
        ends = _read_ends(before, after, keys, has_after)
        return ChangeBatch(pair.type_, pair.type_id, keys.ids, has_before, has_after, ends=ends)
    return batch


def _mask_valid(addresses: pa.Array) -> Mask:
    return np.asarray(addresses.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _is_wanted(wanted: ChangeFilter, has_before: Mask, has_after: Mask) -> Mask:
    if not wanted.ops:
        return np.ones(len(has_before), np.bool_)
    keep = np.zeros(len(has_before), np.bool_)
    for op, mask in (
        (Op.INSERT, ~has_before & has_after),
        (Op.UPDATE, has_before & has_after),
        (Op.DELETE, has_before & ~has_after),
    ):
        if op in wanted.ops:
            keep |= mask
    return keep


def _read_rows(table: Table | None, addresses: pa.Array, type_: NodeType | EdgeType) -> pa.Table:
    """Read whole rows in the engine's form, blobs included."""
    if table is None:
        return build_logical_schema(type_).empty_table()
    names = build_logical_schema(type_).names
    read = list(read_rows_at_addresses(table, addresses, names, blob_bytes=True))
    return convert_from_table_rows(pa.concat_tables(read), type_)


def _read_ends(
    before: Table | None, after: Table | None, keys: ChangedKeys, has_after: Mask
) -> pa.Table:
    """Read `src` and `dst` of each edge: current or, of a deleted one, former."""
    parts: list[pa.Table] = []
    for table, addresses, mask in (
        (after, keys.after, has_after),
        (before, keys.before, ~has_after),
    ):
        if table is not None and mask.any():
            parts += read_rows_at_addresses(table, addresses.filter(pa.array(mask)), ["src", "dst"])
    order = np.argsort(np.concatenate([np.flatnonzero(has_after), np.flatnonzero(~has_after)]))
    return pa.concat_tables(parts).take(pa.array(order))


_STRUCTURAL = ("id", "src", "dst")


def iterate_changes(batch: ChangeBatch) -> Iterator[EntityChange]:
    """Yield the changes of a batch one by one; columns are converted as a whole first."""
    type_ = batch.type_
    before = _spread_images(batch.before, batch.has_before)
    after = _spread_images(batch.after, batch.has_after)
    ends = [None] * len(batch) if batch.ends is None else _convert_endpoints(batch.ends)
    named = NamedType(batch.type_id, type_.name)
    for at, (id, op) in enumerate(zip(batch.ids.to_pylist(), batch.ops(), strict=True)):
        yield EntityChange(type_.kind, named, id, op, before[at], after[at], ends[at])


def convert_images(rows: pa.Table) -> list[Image]:
    """Convert whole rows to images."""
    ends = _convert_endpoints(rows) if "src" in rows.column_names else [None] * rows.num_rows
    names = [name for name in rows.column_names if name not in _STRUCTURAL]
    columns = [encode_image_values(_combine_column(rows, name)) for name in names]
    values = zip(*columns, strict=True) if columns else iter([()] * rows.num_rows)
    return [
        Image(dict(zip(names, row, strict=True)), end)
        for row, end in zip(values, ends, strict=True)
    ]


def _spread_images(rows: pa.Table | None, has: np.ndarray) -> list[Image | None]:
    """Return the images of one side, at the positions of their changes."""
    if rows is None:
        return [None] * len(has)
    images = iter(convert_images(rows))
    return [next(images) if there else None for there in has.tolist()]


def _convert_endpoints(rows: pa.Table) -> list[Endpoints | None]:
    ends = (rows.column(name).to_pylist() for name in ("src", "dst"))
    return [Endpoints(*pair) for pair in zip(*ends, strict=True)]


def _combine_column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    whole = column.combine_chunks()
    return pa.array([], column.type) if isinstance(whole, pa.ChunkedArray) else whole
