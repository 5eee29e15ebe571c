"""Divide the changes of a range of commits into partitions, and read each as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql.datasource import InputPartition

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import ChangeFeedGap, ChangeSchemaBoundary, HistoricalVersionReclaimed
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.graph.changes import BranchHistory
from omnigraph.history.change_feed import list_changed_types, walk_commits
from omnigraph.history.entity_changes import (
    ChangeBatch,
    ChangeFilter,
    Mask,
    TypePair,
    compare_tables,
)
from omnigraph.identity import CommitId
from omnigraph.pipeline.spark_columns import cast_to_schema, to_spark_type
from omnigraph.storage.manifest import CommitRecord, TableEntry
from omnigraph.storage.tables import (
    ChangedKeys,
    PinnedTable,
    Table,
    estimate_changed_rows,
    find_changed_keys,
)
from omnigraph.types.to_json import encode_image_texts
from omnigraph.wire.change_results import Op

PIECES_PER_TASK = 32
"""Number of small pieces read by one task, since starting one costs more than reading them."""
_FEW_ROWS = 8_192
"""Tables of up to this many rows are not opened to count the changed ones."""
_OPEN_TABLES = 16
"""Number of tables kept open in a process: the next commit starts from those of this one."""
START_AGAIN = (
    "take a baseline (`omnigraph changes baseline`, or `graph.baseline()`), replace the copy by "
    "it, and start the stream with a new checkpoint and the baseline's cursor as option "
    "'startingAfter'"
)


@lru_cache(maxsize=_OPEN_TABLES)
def _open(table: PinnedTable) -> Table:
    return table.open()


@dataclass(frozen=True)
class FeedPiece:
    """Changes of one commit to one type, or a part of them, as plain data."""

    commit_id: CommitId
    position: int
    created_at: int
    actor: str | None
    type_: NodeType | EdgeType
    type_id: str
    before: PinnedTable | None
    after: PinnedTable | None
    rows: int
    """Estimated number of changes."""
    part: int = 0
    parts: int = 1
    is_same = False

    def table_before(self) -> Table | None:
        return self._tables[0]

    def table_after(self) -> Table | None:
        return self._tables[1]

    @cached_property
    def _tables(self) -> tuple[Table | None, Table | None]:
        try:
            before = None if self.before is None else _open(self.before)
            return before, None if self.after is None else _open(self.after)
        except HistoricalVersionReclaimed as error:
            raise ChangeFeedGap(None, self.commit_id, START_AGAIN) from error


@dataclass
class ChangedPieces(InputPartition):
    """Changes that one task reads."""

    pieces: tuple[FeedPiece, ...]


@dataclass(frozen=True)
class ChangePlan:
    """The tasks for the changes behind one commit up to another."""

    after: CommitId
    until: CommitId
    tasks: tuple[ChangedPieces, ...]


def plan_changes(
    history: BranchHistory,
    after: CommitId,
    until: CommitId,
    wanted: ChangeFilter,
    *,
    rows_per_task: int,
    only: NodeType | EdgeType | None = None,
    most: int | None = None,
) -> ChangePlan:
    """Plan the tasks for the commits after `after`, up to `until`.

    Args:
        history: The branch.
        after: The commit up to which everything has been read.
        until: The newest commit that is read.
        wanted: Only these changes.
        rows_per_task: How many changes are worth a task.
        only: The one type whose rows are read in columns; they must be those it has here.
        most: The plan ends after so many commits, and before one that cannot be read unless it
            is the first; otherwise such a commit is an error wherever it is.

    Raises:
        ChangeFeedGap: cleanup has removed a commit.
        ChangeSchemaBoundary: a commit changed the columns of a type.
    """
    pieces: list[FeedPiece] = []
    reached = after
    commits = walk_commits(history, after, until)
    for commit in commits if most is None else commits[:most]:
        try:
            found = list(_list_pieces(history, commit, wanted, only, rows_per_task))
        except (HistoricalVersionReclaimed, ChangeSchemaBoundary) as error:
            if most is not None and reached != after:
                break
            raise _add_advice(error, commit) from error
        pieces += found
        reached = commit.commit_id
    return ChangePlan(after, reached, tuple(_group(pieces, rows_per_task)))


def _add_advice(
    error: HistoricalVersionReclaimed | ChangeSchemaBoundary, commit: CommitRecord
) -> ChangeFeedGap | ChangeSchemaBoundary:
    if isinstance(error, ChangeSchemaBoundary):
        return ChangeSchemaBoundary(error.commit_id, error.type_name, START_AGAIN)
    return ChangeFeedGap(None, commit.commit_id, START_AGAIN)


def _list_pieces(
    history: BranchHistory,
    commit: CommitRecord,
    wanted: ChangeFilter,
    only: NodeType | EdgeType | None,
    rows_per_task: int,
) -> Iterator[FeedPiece]:
    """Yield the changes of a commit, type by type; a type with many changes is divided."""
    for pair in list_changed_types(history, commit, wanted):
        if only is not None and not build_logical_schema(pair.type_).equals(
            build_logical_schema(only)
        ):
            raise ChangeSchemaBoundary(commit.commit_id, only.name)
        if pair.is_same:
            continue
        rows = _estimate_rows(pair)
        parts = max(-(-rows // rows_per_task), 1)
        for part in range(parts):
            yield FeedPiece(
                commit.commit_id,
                commit.manifest_version,
                commit.created_at,
                commit.actor_id,
                pair.type_,
                pair.type_id,
                _make_version(pair, pair.before),
                _make_version(pair, pair.after),
                rows // parts,
                part,
                parts,
            )


def _estimate_rows(pair: TypePair) -> int:
    """Estimate the number of changed rows; a small table counts as a whole."""
    rows = sum(entry.row_count for entry in (pair.before, pair.after) if entry is not None)
    if rows <= _FEW_ROWS:
        return rows
    return estimate_changed_rows(pair.table_before(), pair.table_after())


def _make_version(pair: TypePair, entry: TableEntry | None) -> PinnedTable | None:
    if entry is None:
        return None
    return PinnedTable(pair.snapshot.location(entry), entry.version)


def _group(pieces: Iterable[FeedPiece], rows_per_task: int) -> Iterator[ChangedPieces]:
    """Group adjacent pieces up to the size of one task."""
    group: list[FeedPiece] = []
    rows = 0
    for piece in pieces:
        if group and (len(group) == PIECES_PER_TASK or rows + piece.rows > rows_per_task):
            yield ChangedPieces(tuple(group))
            group, rows = [], 0
        group.append(piece)
        rows += piece.rows
    if group:
        yield ChangedPieces(tuple(group))


IMAGES = ("before", "after")
_OPS = (Op.DELETE, Op.INSERT, Op.UPDATE)
"""Operations by the sides that have the row."""


def build_change_schema(type_: NodeType | EdgeType | None) -> pa.Schema:
    """The columns of changes. Images are JSON or, of a single type, structs of its columns."""
    image = pa.string()
    if type_ is not None:
        image = pa.struct(
            [pa.field(f.name, to_spark_type(f.type)) for f in build_logical_schema(type_)]
        )
    return pa.schema(
        [
            pa.field("commit", pa.string(), nullable=False),
            pa.field("position", pa.int64(), nullable=False),
            pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
            pa.field("actor", pa.string()),
            pa.field("kind", pa.string(), nullable=False),
            pa.field("type", pa.string(), nullable=False),
            pa.field("id", pa.string(), nullable=False),
            pa.field("op", pa.string(), nullable=False),
            pa.field("before", image),
            pa.field("after", image),
        ]
    )


@dataclass(frozen=True)
class ChangeRows:
    """Reads the changes of tasks as batches with the columns Spark expects."""

    wanted: ChangeFilter
    schema: pa.Schema

    def read(self, task: ChangedPieces) -> Iterator[pa.RecordBatch]:
        for piece in task.pieces:
            try:
                yield from self._read_piece(piece)
            except HistoricalVersionReclaimed as error:
                raise ChangeFeedGap(None, piece.commit_id, START_AGAIN) from error

    def _read_piece(self, piece: FeedPiece) -> Iterator[pa.RecordBatch]:
        images = any(name in IMAGES for name in self.schema.names)
        for batch in compare_tables(
            piece, self.wanted, images=images, find_keys=_make_key_finder(piece)
        ):
            yield cast_to_schema(self._columns(piece, batch), self.schema)

    def _columns(self, piece: FeedPiece, batch: ChangeBatch) -> pa.RecordBatch:
        count = len(batch)
        codes = batch.has_before.astype(np.int8) + 2 * batch.has_after.astype(np.int8) - 1
        columns = {
            "commit": pa.repeat(pa.scalar(str(piece.commit_id)), count),
            "position": pa.repeat(pa.scalar(piece.position, pa.int64()), count),
            "time": pa.repeat(pa.scalar(piece.created_at, pa.timestamp("us", tz="UTC")), count),
            "actor": pa.repeat(pa.scalar(piece.actor, pa.string()), count),
            "kind": pa.repeat(pa.scalar(str(piece.type_.kind)), count),
            "type": pa.repeat(pa.scalar(piece.type_.name), count),
            "id": batch.ids,
            "op": pa.array([str(op) for op in _OPS]).take(pa.array(codes)),
        }
        sides = ((batch.before, batch.has_before), (batch.after, batch.has_after))
        for name, (rows, has) in zip(IMAGES, sides, strict=True):
            if name in self.schema.names:
                assert rows is not None, "images were asked for"
                image = _choose_image_maker(self.schema.field(name).type)
                columns[name] = _spread(image(piece, rows), has)
        return pa.RecordBatch.from_pydict(columns)


def _make_key_finder(piece: FeedPiece) -> Callable[[Table | None, Table | None], ChangedKeys]:
    """Return a function that finds the ids of this part of the changes."""

    def find(before: Table | None, after: Table | None) -> ChangedKeys:
        keys = find_changed_keys(before, after)
        start, end = (len(keys) * at // piece.parts for at in (piece.part, piece.part + 1))
        return keys.slice(start, end - start)

    return find


def _choose_image_maker(kind: pa.DataType) -> Callable[[FeedPiece, pa.Table], pa.Array]:
    """Return the conversion of rows to a column of this type: structs, or JSON."""

    def make_structs(piece: FeedPiece, rows: pa.Table) -> pa.Array:  # noqa: ARG001 - as below
        batch = rows.combine_chunks().to_batches()
        (whole,) = batch or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        columns = cast_to_schema(whole, pa.schema(list(kind)))
        return pa.StructArray.from_arrays(columns.columns, fields=list(kind))

    def make_texts(piece: FeedPiece, rows: pa.Table) -> pa.Array:
        return pa.array(encode_image_texts(piece.type_.kind, rows), pa.string())

    return make_structs if pat.is_struct(kind) else make_texts


def _spread(images: pa.Array, has: Mask) -> pa.Array:
    """Return images at the positions of their changes, null elsewhere."""
    return images.take(pa.array(np.cumsum(has) - 1, mask=~has))
