"""Embedding in tasks: texts in batches, at a pace, and none of them paid for twice.

A task first gathers the texts it needs, then requests those not requested yet, a batch with
each request, and writes every answer down before it goes on. A run that starts over finds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.errors import EmbeddingFailed
from omnigraph.execution.embed import (
    EmbedRequest,
    EmbedSummary,
    LineRange,
    TextRole,
    build_embed_text,
    embed_file,
    render_field,
)
from omnigraph.execution.read import Flags
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.pipeline.inputs import ColumnMapping
from omnigraph.pipeline.kernels.partition import Partition
from omnigraph.pipeline.kernels.stage_kernel import (
    FrameSpec,
    StagedSplit,
    StageSpec,
    stage_partition,
)
from omnigraph.pipeline.kernels.text_vectors import Asking, embed_texts
from omnigraph.pipeline.table_scan import TableScan, scan_rows
from omnigraph.types.arrow import to_arrow_type


@dataclass(frozen=True, slots=True)
class Failed:
    """A task whose provider did not answer; asking again at once would be no use."""

    reason: str


# --- records of a file ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some lines of the input, and the number of their piece."""

    number: int
    lines: LineRange


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWork:
    """What every task of a file needs: the request, and a folder for pieces."""

    request: EmbedRequest
    folder: Path
    asking: Asking

    def output(self, number: int) -> Path:
        return self.folder / f"{number:06}.out"


def embed_piece(work: FileWork, piece: Piece) -> EmbedSummary | Failed:
    """The records of one piece, with their vectors, in a file of their own."""
    request = replace(
        work.request, lines=piece.lines, output=work.output(piece.number), is_resumable=False
    )
    try:
        gathered = _Gathering()
        embed_file(request, gathered)
        ready = _Ready(embed_texts(work.asking, gathered.texts))
        return embed_file(request, ready)
    except EmbeddingFailed as failure:
        return Failed(failure.message)


@dataclass
class _Gathering:
    """Notes which texts are asked for, and gives any vector."""

    model: str = ""
    texts: list[str] = field(default_factory=list)

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:  # noqa: ARG002 - whatever it is for
        self.texts.append(text)
        return [1.0, *[0.0] * (dimension - 1)]


@dataclass(frozen=True)
class _Ready:
    """Gives vectors that are there already."""

    vectors: Mapping[str, list[float]]
    model: str = ""

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:  # noqa: ARG002 - as above
        return self.vectors[text]


# --- rows of a graph ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VectorProperty:
    """A vector property, and the properties its text is made of."""

    target: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTask:
    """Fragments of a type, and which of its vectors are filled; all of them, if asked for."""

    number: int
    scan: TableScan
    fragments: tuple[int, ...]
    fills: tuple[VectorProperty, ...]
    replaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWork:
    """What every task of a graph needs; dimensions are those of the properties."""

    stage: StageSpec
    asking: Asking


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedRows:
    """The rows of one task that got a vector, staged as whole rows."""

    split: StagedSplit
    vectors: int


def embed_rows(work: RowWork, task: RowTask) -> EmbeddedRows | Failed:
    """Rows without a vector, staged with one; rows with nothing to say are left as they are."""
    plain = pa.schema([(field.name, field.type) for field in build_logical_schema(task.scan.type_)])
    rows = pa.Table.from_batches(scan_rows(task.scan, task.fragments), plain)
    changed: Flags = np.zeros(rows.num_rows, dtype=np.bool_)
    count = 0
    for fill in task.fills:
        texts = _build_texts(task, fill, rows)
        try:
            rows = _fill_vectors(work, task, fill, rows, texts)
        except EmbeddingFailed as failure:
            return Failed(failure.message)
        got = np.array([text is not None for text in texts], dtype=np.bool_)
        changed, count = changed | got, count + int(got.sum())
    kept = rows.take(pa.array(np.flatnonzero(changed)))
    mapping = ColumnMapping(task.scan.table_key)
    spec, rows_kept = FrameSpec(work.stage, mapping), iter(kept.to_batches())
    split = stage_partition(spec, Partition(task.number, rows_kept))
    return EmbeddedRows(split=split, vectors=count)


def _build_texts(task: RowTask, fill: VectorProperty, rows: pa.Table) -> list[str | None]:
    """The text of every row that gets a vector; None for the others."""
    name = task.scan.type_.name
    columns = [rows.column(field).to_pylist() for field in fill.fields]
    vectors = rows.column(fill.target).is_valid().to_pylist()
    found: list[str | None] = []
    for has_vector, *values in zip(vectors, *columns, strict=True):
        says = any(render_field(value) for value in values)
        given = dict(zip(fill.fields, values, strict=True))
        wanted = says and (task.replaces or not has_vector)
        found.append(build_embed_text(name, given, fill.fields) if wanted else None)
    return found


def _fill_vectors(
    work: RowWork, task: RowTask, fill: VectorProperty, rows: pa.Table, texts: Sequence[str | None]
) -> pa.Table:
    property_ = task.scan.type_.property(fill.target)
    assert property_ is not None, "the driver looked it up"
    assert property_.type.dimension is not None, "the driver lets only vectors through"
    asking = replace(work.asking, dimension=property_.type.dimension)
    vectors = embed_texts(asking, [text for text in texts if text is not None])
    old = rows.column(fill.target).to_pylist()
    new = [
        before if text is None else vectors[text] for before, text in zip(old, texts, strict=True)
    ]
    place = rows.schema.get_field_index(fill.target)
    return rows.set_column(place, rows.field(place), pa.array(new, to_arrow_type(property_.type)))
