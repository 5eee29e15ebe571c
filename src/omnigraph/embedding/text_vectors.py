"""Request the vectors of texts: in batches, at a pace, and none that an earlier answer holds."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

import pyarrow as pa

from omnigraph.embedding.embedder import BatchEmbedder, Embedder, TextRole
from omnigraph.embedding.embedder_choice import open_embedder
from omnigraph.errors import StorageError
from omnigraph.settings import AwsSettings, EmbedSettings, Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_staging_path
from omnigraph.storage.objects import open_store

TEXTS_PER_REQUEST = 64


@dataclass
class Pace:
    """Rate limit of texts, which are spread evenly over time; without a rate there is no limit."""

    per_minute: float | None = None
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    _next_at: float = 0.0

    def wait(self, texts: int) -> None:
        """Wait until a number of texts may be sent."""
        if self.per_minute is None:
            return
        now = self.clock()
        wait = max(0.0, self._next_at - now)
        self._next_at = now + wait + texts * 60.0 / self.per_minute
        if wait:
            self.pause(wait)


class Answers(Protocol):
    """Vectors that a provider returned earlier, by text, model and dimension."""

    def find(self, texts: Iterable[str], model: str, dimension: int) -> dict[str, list[float]]:
        """Look up texts; those without an answer are left out."""
        ...

    def keep(
        self, texts: Sequence[str], model: str, dimension: int, vectors: Sequence[list[float]]
    ) -> None:
        """Store the vectors of texts."""
        ...


@dataclass
class MemoryAnswers:
    """Answers in the memory of this process."""

    _vectors: dict[tuple[str, str, int], list[float]] = field(default_factory=dict)

    def find(self, texts: Iterable[str], model: str, dimension: int) -> dict[str, list[float]]:
        found = ((text, self._vectors.get((text, model, dimension))) for text in texts)
        return {text: vector for text, vector in found if vector is not None}

    def keep(
        self, texts: Sequence[str], model: str, dimension: int, vectors: Sequence[list[float]]
    ) -> None:
        for text, vector in zip(texts, vectors, strict=True):
            self._vectors[text, model, dimension] = vector


_SCHEMA = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32()))])


@dataclass(frozen=True, slots=True)
class AnswerFolder:
    """Answers as files in one folder that all tasks reach: one file for each request."""

    uri: str
    aws: AwsSettings = field(default_factory=AwsSettings, repr=False)

    def find(self, texts: Iterable[str], model: str, dimension: int) -> dict[str, list[float]]:
        store = open_store(self.uri, Settings(aws=self.aws))
        stored: dict[str, list[float]] = {}
        for name in store.list(""):
            rows = pa.ipc.open_file(store.get(name)).read_all()
            stored.update(zip(rows["text"].to_pylist(), rows["vector"].to_pylist(), strict=True))
        keys = {text: _hash_text(text, model, dimension) for text in texts}
        return {text: stored[key] for text, key in keys.items() if key in stored}

    def keep(
        self, texts: Sequence[str], model: str, dimension: int, vectors: Sequence[list[float]]
    ) -> None:
        keys = [_hash_text(text, model, dimension) for text in texts]
        rows, sink = pa.table([keys, vectors], schema=_SCHEMA), pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA) as writer:
            writer.write_table(rows)
        data = sink.getvalue().to_pybytes()
        open_store(self.uri, Settings(aws=self.aws)).put(uuid4().hex, data, durably=False)


def _hash_text(text: str, model: str, dimension: int) -> str:
    return hashlib.sha256(f"{model}\0{dimension}\0{text}".encode()).hexdigest()


def embed_texts(
    embedder: Embedder,
    texts: Iterable[str],
    dimension: int,
    answers: Answers | None = None,
    pace: Pace | None = None,
    texts_per_request: int = TEXTS_PER_REQUEST,
) -> Mapping[str, list[float]]:
    """Return the vector of each text, as a document.

    Raises:
        EmbeddingFailed: the provider failed; the answers it gave are stored.
    """
    answers, pace = answers or MemoryAnswers(), pace or Pace()
    wanted = list(dict.fromkeys(texts))
    found = answers.find(wanted, embedder.model, dimension)
    missing = [text for text in wanted if text not in found]
    for start in range(0, len(missing), texts_per_request):
        batch = missing[start : start + texts_per_request]
        pace.wait(len(batch))
        vectors = _embed_documents(embedder, batch, dimension)
        answers.keep(batch, embedder.model, dimension, vectors)
        found.update(zip(batch, vectors, strict=True))
    return found


def _embed_documents(embedder: Embedder, texts: Sequence[str], dimension: int) -> list[list[float]]:
    if isinstance(embedder, BatchEmbedder) and len(texts) > 1:
        return embedder.embed_many(texts, dimension, TextRole.DOCUMENT)
    return [embedder.embed(text, dimension, TextRole.DOCUMENT) for text in texts]


@dataclass
class TextVectors:
    """Vectors of texts from the provider of the settings."""

    settings: EmbedSettings = field(repr=False)
    answers: Answers = field(default_factory=MemoryAnswers)
    pace: Pace = field(default_factory=Pace)

    def ask(self, texts: Iterable[str], dimension: int) -> Mapping[str, list[float]]:
        """Return the vector of each text.

        Raises:
            EmbeddingFailed: the provider failed; the answers it gave are stored.
        """
        embedder = open_embedder(self.settings)
        return embed_texts(embedder, texts, dimension, self.answers, self.pace)


# --- answers of a graph ---------------------------------------------------------------------------

_GRAPH_ANSWERS = make_staging_path("embed-answers")


def open_task_vectors(root: GraphRoot, per_minute: float | None = None) -> TextVectors:
    """Return the vectors of rows that tasks write; answers are stored until the rows are committed.

    Args:
        root: The graph.
        per_minute: The number of texts that each task may request.
    """
    settings = root.settings
    answers = AnswerFolder(root.store.uri_of(_GRAPH_ANSWERS), settings.aws)
    return TextVectors(settings.embed, answers, Pace(per_minute))


def remove_answers(root: GraphRoot) -> None:
    """Remove the stored answers of a graph; on failure they remain as garbage for cleanup."""
    with suppress(StorageError):
        root.store.delete_prefix(_GRAPH_ANSWERS)
