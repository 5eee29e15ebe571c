"""Texts to vectors in tasks: in batches, at a pace, and none of them paid for twice."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa

from omnigraph.execution.embed import open_embedder
from omnigraph.execution.fill_vectors import TEXTS_PER_REQUEST, ask_embedder
from omnigraph.pipeline.inputs import open_filesystem, store_path
from omnigraph.settings import AwsSettings, EmbedSettings

_ANSWERS = pa.schema([("text", pa.string()), ("vector", pa.list_(pa.float32()))])
_SUFFIX = ".arrow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who is asked for vectors, how often, and where answers are written down."""

    settings: EmbedSettings = field(repr=False)
    dimension: int
    answers: str
    """A folder that all tasks reach."""
    aws: AwsSettings = field(repr=False)
    per_minute: float | None = None
    """How many texts each task may ask for."""
    texts_per_request: int = TEXTS_PER_REQUEST


def embed_texts(asking: Asking, texts: Iterable[str]) -> dict[str, list[float]]:
    """The vector of every text.

    Raises:
        EmbeddingFailed: the provider did not answer properly; what it did answer is kept.
    """
    embedder = open_embedder(asking.settings)
    answers = _Answers(asking, embedder.model)
    found = answers.read_known()
    wanted = {text: answers.key(text) for text in texts}
    missing = [text for text, key in wanted.items() if key not in found]
    pace = _Pace(asking.per_minute)
    for batch in _read_batches(missing, asking.texts_per_request):
        pace.wait(len(batch))
        vectors = ask_embedder(embedder, batch, asking.dimension)
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
    """What was asked before: small files of texts and vectors in one folder."""

    def __init__(self, asking: Asking, model: str) -> None:
        self._folder, self._store = (
            store_path(asking.answers),
            open_filesystem(asking.answers, asking.aws),
        )
        self._name = f"{model}\0{asking.dimension}"

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
