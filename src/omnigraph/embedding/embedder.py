"""Embedders: their protocol, the checks on their vectors, and one for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np

from omnigraph.errors import BadRequest, EmbeddingFailed


class TextRole(StrEnum):
    """Role of a text, query or document; some models embed the two differently."""

    QUERY = "query"
    DOCUMENT = "document"


class Embedder(Protocol):
    """Maps texts to vectors of length one, always with the same model."""

    @property
    def model(self) -> str:
        """Name of the model; vectors of different models are not comparable."""
        ...

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:
        """Return the vector of a text, in single precision.

        Raises:
            EmbeddingFailed: the provider failed.
        """
        ...


@runtime_checkable
class BatchEmbedder(Embedder, Protocol):
    """An embedder that takes several texts in one request."""

    def embed_many(self, texts: Sequence[str], dimension: int, role: TextRole) -> list[list[float]]:
        """Return the vectors of the texts, in their order.

        Raises:
            EmbeddingFailed: the provider failed for one of them.
        """
        ...


def make_query_embedder(embedder: Embedder) -> Callable[[str, int, str | None], list[float]]:
    """Return the embedding function of query texts, which checks the recorded model first."""

    def embed_query(text: str, dimension: int, recorded_model: str | None) -> list[float]:
        require_same_model(embedder, recorded_model)
        return embedder.embed(text, dimension, TextRole.QUERY)

    return embed_query


def require_same_model(embedder: Embedder, recorded_model: str | None) -> None:
    """Raise unless both models are the same: distances across models are meaningless.

    Raises:
        BadRequest: the schema records another model than that of the embedder.
    """
    if recorded_model is not None and recorded_model != embedder.model:
        raise BadRequest(
            f"the stored vectors were made by model '{recorded_model}', "
            f"the query would be embedded by '{embedder.model}'"
        )


def normalize_vector(values: Sequence[float], dimension: int) -> list[float]:
    """Return the vector scaled to length one, in single precision.

    Raises:
        EmbeddingFailed: its dimension is wrong, or its length is zero.
    """
    if len(values) != dimension:
        raise EmbeddingFailed(f"the embedding has {len(values)} dimensions instead of {dimension}")
    with np.errstate(over="ignore"):
        vector = np.asarray(values, np.float64).astype(np.float32)
    if not np.isfinite(vector).all():
        raise EmbeddingFailed("the embedding holds a number that is not finite")
    norm = np.float32(np.sqrt(np.square(vector.astype(np.float64)).sum()))
    if not np.finfo(np.float32).eps < norm < np.inf:
        raise EmbeddingFailed(f"the embedding has length {norm:g}, which gives no direction")
    return [float(value) for value in vector / norm]


_FNV_OFFSET = 14695981039346656037
_FNV_PRIME = 1099511628211
_64_BITS = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class MockEmbedder:
    """An embedder without a provider."""

    model: str = ""

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:  # noqa: ARG002  # a query and a document of one text are one vector
        state, components = hash_fnv1a64(text.encode()), []
        for _ in range(dimension):
            state = _advance(state)
            components.append(float(np.float32(state / 2**64) * np.float32(2) - np.float32(1)))
        return normalize_vector(components, dimension)


def hash_fnv1a64(data: bytes) -> int:
    digest = _FNV_OFFSET
    for byte in data:
        digest = ((digest ^ byte) * _FNV_PRIME) & _64_BITS
    return digest


def _advance(state: int) -> int:
    """Advance the xorshift generator by one step."""
    state ^= (state << 13) & _64_BITS
    state ^= state >> 7
    return state ^ ((state << 17) & _64_BITS)
