"""Embed texts of rows on their way to a staging table: in batches, at a rate, each text once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import numpy as np
import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType, Property
from omnigraph.constraints.table_changes import get_column
from omnigraph.embedding.embedder_choice import open_embedder
from omnigraph.errors import RowProblem
from omnigraph.execution.embed_on_write import (
    TEXTS_PER_REQUEST,
    embed_documents,
    explain_missing_vector,
    fill_vectors,
    find_obstacle,
    list_embedded_properties,
    mask_null,
    mask_texts,
    replace_cells,
    reuse_stored_vectors,
)
from omnigraph.execution.read import Flags
from omnigraph.pipeline.inputs import open_filesystem, store_path
from omnigraph.pipeline.kernels.complete_rows import Whole
from omnigraph.pipeline.staging_area import AT, PRESENT, encode_position
from omnigraph.settings import AwsSettings, EmbedSettings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_staging_path
from omnigraph.storage.tables import Table
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.row_problems import ProblemCode

_ANSWERS = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32()))])
_SUFFIX = ".arrow"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSpec:
    """Embedder to request vectors from, its rate, and the folder of its answers."""

    settings: EmbedSettings = field(repr=False)
    dimension: int
    answers: str
    """A folder that all tasks reach."""
    aws: AwsSettings = field(repr=False)
    per_minute: float | None = None
    """Number of texts that each task may request."""
    texts_per_request: int = TEXTS_PER_REQUEST


def embed_texts(embedder_spec: EmbedderSpec, texts: Iterable[str]) -> dict[str, list[float]]:
    """The vector of every text.

    Raises:
        EmbeddingFailed: the provider did not answer properly; what it did answer is kept.
    """
    embedder = open_embedder(embedder_spec.settings)
    answers = _Answers(embedder_spec, embedder.model)
    found = answers.read_known()
    wanted = {text: answers.key(text) for text in texts}
    missing = [text for text, key in wanted.items() if key not in found]
    pace = _Pace(embedder_spec.per_minute)
    for batch in _read_batches(missing, embedder_spec.texts_per_request):
        pace.wait(len(batch))
        vectors = embed_documents(embedder, batch, embedder_spec.dimension)
        keys = [wanted[text] for text in batch]
        answers.keep(keys, vectors)
        found.update(zip(keys, vectors, strict=True))
    return {text: found[key] for text, key in wanted.items()}


def _read_batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


class _Pace:
    """Spreads texts evenly over time."""

    def __init__(self, per_minute: float | None) -> None:
        self._each = 0.0 if per_minute is None else 60.0 / per_minute
        self._next_at = 0.0

    def wait(self, texts: int) -> None:
        now = time.monotonic()
        pause = max(0.0, self._next_at - now)
        self._next_at = now + pause + texts * self._each
        if pause:
            time.sleep(pause)


class _Answers:
    """Answers of earlier requests: small files of texts and vectors in one folder."""

    def __init__(self, embedder_spec: EmbedderSpec, model: str) -> None:
        self._folder, self._store = (
            store_path(embedder_spec.answers),
            open_filesystem(embedder_spec.answers, embedder_spec.aws),
        )
        self._name = f"{model}\0{embedder_spec.dimension}"

    def key(self, text: str) -> str:
        """A text as one model embeds it in one dimension."""
        return hashlib.sha256(f"{self._name}\0{text}".encode()).hexdigest()

    def read_known(self) -> dict[str, list[float]]:
        import pyarrow.fs as fs  # noqa: PLC0415 - only where something is embedded

        selector = fs.FileSelector(self._folder, allow_not_found=True)
        files = [info.path for info in self._store.get_file_info(selector)]
        found: dict[str, list[float]] = {}
        for path in (path for path in files if path.endswith(_SUFFIX)):
            with self._store.open_input_file(path) as stream:
                table = pa.ipc.open_file(stream).read_all()
            found.update(zip(table["text"].to_pylist(), table["vector"].to_pylist(), strict=True))
        return found

    def keep(self, keys: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
        self._store.create_dir(self._folder, recursive=True)
        path = f"{self._folder}/{uuid4().hex}"
        table = pa.table({"text": keys, "vector": vectors}, schema=_ANSWERS)
        with (
            self._store.open_output_stream(path) as stream,
            pa.ipc.new_file(stream, table.schema) as writer,
        ):
            writer.write_table(table)
        # Only a file that is there as a whole has the name of one.
        self._store.move(path, path + _SUFFIX)


def make_embedder_spec(root: GraphRoot) -> EmbedderSpec:
    """Return the embedder of rows that are written to a graph."""
    settings = root.settings
    return EmbedderSpec(
        settings=settings.embed,
        dimension=0,  # that of each property
        answers=find_answers_folder(root),
        aws=settings.aws,
    )


def forget_answers(root: GraphRoot) -> None:
    """Remove what the provider answered, once it is part of the graph."""
    folder, aws = find_answers_folder(root), root.settings.aws
    store = open_filesystem(folder, aws)
    try:
        store.delete_dir(store_path(folder))
    except OSError:
        return  # nothing was asked, or it is garbage and harmless


def find_answers_folder(root: GraphRoot) -> str:
    """Return the folder that holds the answers for a graph until its rows are committed."""
    place = root.location(make_staging_path("embed-answers")).native_uri
    return place.removeprefix("file://")


_NOT_ASKED = "no provider is asked here"


def make_vectors(
    type_: NodeType | EdgeType,
    whole: Whole,
    embedder_spec: EmbedderSpec | None,
    split: int,
    *,
    partial: bool,
    stored: Table | None = None,
) -> None:
    """Put the missing vectors into rows, and take out rows that must have one and cannot.

    A partial record gets one if it gives a text and no vector. A row whose text is the `stored`
    one keeps the stored vector: whatever that row becomes meanwhile, it is the vector of the text.
    """
    for property_ in list_embedded_properties(type_):
        assert property_.embed is not None, "only such vectors are made"
        stale = _find_stale(whole.rows, property_, partial=partial)
        obstacle = (
            _NOT_ASKED
            if embedder_spec is None
            else find_obstacle(embedder_spec.settings, property_)
        )
        if embedder_spec is not None and obstacle is None and stale.any():
            if stored is not None:
                whole.rows = reuse_stored_vectors(whole.rows, property_, stale, stored)
            _fill(type_, whole, property_, stale, embedder_spec, partial=partial)
        if not property_.type.nullable:
            _refuse_lacking(type_, whole, property_, obstacle, split, partial=partial)


def _find_stale(rows: pa.Table, property_: Property, *, partial: bool) -> Flags:
    if not partial:
        return mask_null(get_column(rows, property_.name))
    assert property_.embed is not None, "only such vectors are made"
    gives_text = _read_flags(rows, property_.embed.source)
    return gives_text & ~_read_flags(rows, property_.name)


def _read_flags(rows: pa.Table, name: str) -> Flags:
    found: Flags = get_column(rows, PRESENT + name).to_numpy(zero_copy_only=False)
    return found


def _fill(
    type_: NodeType | EdgeType,
    whole: Whole,
    property_: Property,
    stale: Flags,
    embedder_spec: EmbedderSpec,
    *,
    partial: bool,
) -> None:
    assert property_.embed is not None, "only such vectors are made"

    def ask(texts: Sequence[str], dimension: int) -> Mapping[str, list[float]]:
        return embed_texts(replace(embedder_spec, dimension=dimension), texts)

    says = mask_texts(get_column(whole.rows, property_.embed.source))
    lacking = stale & mask_null(get_column(whole.rows, property_.name))
    rows = fill_vectors(type_, whole.rows, property_, lacking & says, ask)
    if partial:  # a text that was taken away takes its vector with it
        silent = np.flatnonzero(stale & ~says)
        none = pa.nulls(len(silent), to_arrow_type(property_.type))
        rows = replace_cells(rows, property_.name, silent, none)
        given = pa.array(_read_flags(rows, property_.name) | stale)
        place = rows.schema.get_field_index(PRESENT + property_.name)
        rows = rows.set_column(place, rows.schema.field(place), given)
    whole.rows = rows


def _refuse_lacking(
    type_: NodeType | EdgeType,
    whole: Whole,
    property_: Property,
    obstacle: str | None,
    split: int,
    *,
    partial: bool,
) -> None:
    lacking = mask_null(get_column(whole.rows, property_.name))
    if partial:
        lacking = lacking & _read_flags(whole.rows, property_.name)
    reason = explain_missing_vector(property_, obstacle)
    for row in np.flatnonzero(lacking).tolist():
        line = whole.rows.column(AT)[row].as_py() - encode_position(split, 0)
        id = whole.rows.column("id")[row].as_py()
        whole.problems.append(
            RowProblem(
                reason, ProblemCode.REQUIRED, None, line, type_.table_key, id, property_.name
            )
        )
    if lacking.any():
        whole.rows = whole.rows.filter(pa.array(~lacking))
