"""Embed texts of rows on their way to a staging table: in batches, at a rate, each text once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa

from omnigraph.catalog.catalog import Property
from omnigraph.embedding.embedder_choice import open_embedder
from omnigraph.execution.embed_on_write import (
    TEXTS_PER_REQUEST,
    embed_documents,
    find_obstacle,
)
from omnigraph.pipeline.input_splits import open_filesystem, store_path
from omnigraph.settings import AwsSettings, EmbedSettings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_staging_path

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


class TaskVectors:
    """Computes the vectors of a task, which keeps the answers where other tasks find them."""

    def __init__(self, embedder_spec: EmbedderSpec) -> None:
        self._spec = embedder_spec

    def find_obstacle(self, property_: Property) -> str | None:
        return find_obstacle(self._spec.settings, property_)

    def ask(self, texts: Sequence[str], dimension: int) -> Mapping[str, list[float]]:
        return embed_texts(replace(self._spec, dimension=dimension), texts)
