"""Changes as rows of a frame, made by the tasks that read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import ChangeFeedGap, HistoricalVersionReclaimed
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.history.entity_changes import ChangeBatch, ChangeFilter, Mask, Op, compare_tables
from omnigraph.pipeline.spark_columns import cast_to_schema, to_spark_type
from omnigraph.spark_source.change_plan import START_AGAIN, ChangedPieces, FeedPiece
from omnigraph.storage.tables import ChangedKeys, Table, find_changed_keys
from omnigraph.types.to_json import encode_image_texts

IMAGES = ("before", "after")
_OPS = (Op.DELETE, Op.INSERT, Op.UPDATE)
"""By where a row is: before, after, on both sides."""


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
    """Reads the changes of tasks as batches with the columns Spark asked for."""

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
    """Finds the ids of this part of what a commit changed in a type."""

    def find(before: Table | None, after: Table | None) -> ChangedKeys:
        keys = find_changed_keys(before, after)
        start, end = (len(keys) * at // piece.parts for at in (piece.part, piece.part + 1))
        return keys.slice(start, end - start)

    return find


def _choose_image_maker(kind: pa.DataType) -> Callable[[FeedPiece, pa.Table], pa.Array]:
    """How rows become a column of this type: structs, or JSON."""

    def make_structs(piece: FeedPiece, rows: pa.Table) -> pa.Array:  # noqa: ARG001 - as below
        batch = rows.combine_chunks().to_batches()
        (whole,) = batch or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
        columns = cast_to_schema(whole, pa.schema(list(kind)))
        return pa.StructArray.from_arrays(columns.columns, fields=list(kind))

    def make_texts(piece: FeedPiece, rows: pa.Table) -> pa.Array:
        return pa.array(encode_image_texts(piece.type_.kind, rows), pa.string())

    return make_structs if pat.is_struct(kind) else make_texts


def _spread(images: pa.Array, has: Mask) -> pa.Array:
    """Images where their changes are, and null where there is none."""
    return images.take(pa.array(np.cumsum(has) - 1, mask=~has))
