"""An embedder that computes vectors in this process, with a small sentence model and no network."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from omnigraph.errors import EmbeddingFailed
from omnigraph.execution.embed.embedder import TextRole, normalize_vector
from omnigraph.execution.embed.local_encoder import Encoder, Floats, build_encoder
from omnigraph.execution.embed.local_files import (
    TOKENIZER,
    WEIGHTS,
    find_model_folder,
    read_published,
    read_tensors,
)

LOCAL_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
LOCAL_DIMENSION = 384
_HEADS = 12
_LONGEST_TEXT = 256
"""Tokens; the model was made for texts up to this length, and what is beyond it is left out."""
_TOKENS_AT_ONCE = 2048
"""More would not be faster, only take more memory."""


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """A tokenizer and its encoder. Never changes, so threads may share it."""

    tokens: Callable[[str], Sequence[int]]
    encoder: Encoder

    def vectors(self, texts: Sequence[str]) -> Floats:
        """One row for each text, in the order of the texts."""
        answer = np.empty((len(texts), self.encoder.dimension), np.float32)
        tokens = [self.tokens(text) for text in texts]
        for places in plan_batches([len(each) for each in tokens], _TOKENS_AT_ONCE):
            answer[places] = self.encoder.encode([tokens[place] for place in places])
        return answer


def plan_batches(lengths: Sequence[int], tokens_at_once: int) -> Iterator[list[int]]:
    """The places of all texts in batches, short texts first.

    A batch has no more tokens than asked for, unless a single text has.
    """
    batch: list[int] = []
    tokens = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[place] > tokens_at_once:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += lengths[place]
    if batch:
        yield batch


_loading = threading.Lock()


def load_shared_model() -> SentenceModel:
    """The model of this process, loaded on first use.

    Raises:
        EmbeddingFailed: its files are damaged.
        MissingPackage: it is not installed.
    """
    with _loading:
        return _load_once()


@functools.cache
def _load_once() -> SentenceModel:
    return load_model(find_model_folder())


def load_model(folder: Path) -> SentenceModel:
    """The model whose published files are in a folder.

    Raises:
        EmbeddingFailed: they are damaged.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415 - an optional package

    tokenizer = Tokenizer.from_str(read_published(folder, TOKENIZER).decode())
    # The file asks for texts of one short length, which suits training and nothing else.
    tokenizer.no_padding()
    tokenizer.enable_truncation(_LONGEST_TEXT)

    def tokens(text: str) -> Sequence[int]:
        # One by one: for many at once the package starts threads, and a later fork complains.
        return list(tokenizer.encode(text).ids)

    weights = read_tensors(read_published(folder, WEIGHTS))
    return SentenceModel(tokens, build_encoder(weights, _HEADS))


@dataclass(frozen=True, slots=True)
class LocalEmbedder:
    """An embedder without a provider. The model is loaded for the first text, once in a process."""

    model: str = LOCAL_MODEL
    dimension: int = LOCAL_DIMENSION
    load: Callable[[], SentenceModel] = load_shared_model

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:
        return self.embed_many([text], dimension, role)[0]

    def embed_many(
        self,
        texts: Sequence[str],
        dimension: int,
        role: TextRole,  # noqa: ARG002  # queries and documents are embedded alike
    ) -> list[list[float]]:
        """The vectors of several texts, which is faster than one by one.

        Raises:
            EmbeddingFailed: vectors of the model have another dimension, or its files are damaged.
            MissingPackage: the model is not installed.
        """
        if dimension != self.dimension:
            raise EmbeddingFailed(
                f"vectors of model '{self.model}' have {self.dimension} dimensions, not {dimension}"
            )
        return [normalize_vector(row, dimension) for row in self.load().vectors(texts).tolist()]
