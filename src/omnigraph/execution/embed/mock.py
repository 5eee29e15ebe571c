"""Vectors made up from the letters of a text: always the same, and good for nothing but tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.execution.embed.embedder import TextRole, normalize_vector

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
    """One step of the xorshift generator."""
    state ^= (state << 13) & _64_BITS
    state ^= state >> 7
    return state ^ ((state << 17) & _64_BITS)
