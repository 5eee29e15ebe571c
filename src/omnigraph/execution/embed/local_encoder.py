"""The forward pass of a BERT encoder in NumPy: tokens of many texts to one vector each.

Texts are not padded to one length. Their tokens lie one behind the other in a single matrix, so
that every dense layer is one multiplication of two matrices; only attention looks at texts one by
one, those of the same length together. So nothing has to be masked, and no text sees another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_GELU_BLOCK = 1 << 14
"""Numbers worked on at a time: few enough that all passes over them stay in the cache."""
_ERF_P = 0.3275911
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Abramowitz and Stegun 7.1.26: the error function within 1.5e-7, highest power first."""
_NORM_EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class _Dense:
    weight: Floats
    """Transposed: inputs by outputs."""
    bias: Floats

    def __call__(self, rows: Floats) -> Floats:
        product: Floats = rows @ self.weight
        product += self.bias
        return product


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Floats
    bias: Floats

    def __call__(self, rows: Floats) -> Floats:
        """The rows, each with mean zero and variance one, then scaled; overwrites its argument."""
        rows -= rows.mean(axis=1, keepdims=True)
        variance = np.einsum("ij,ij->i", rows, rows)[:, None] / np.float32(rows.shape[1])
        rows *= self.weight / np.sqrt(variance + np.float32(_NORM_EPSILON))
        rows += self.bias
        return rows


@dataclass(frozen=True, slots=True)
class _Layer:
    attention_in: _Dense
    """Queries, keys and values with one multiplication; queries are scaled already."""
    attention_out: _Dense
    attention_norm: _Norm
    wide: _Dense
    narrow: _Dense
    norm: _Norm


@dataclass(frozen=True, slots=True)
class _LengthRun:
    """Texts of one length that follow each other: where their rows are."""

    start: int
    texts: int
    length: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.texts * self.length)


@dataclass(frozen=True, slots=True)
class Encoder:
    """A BERT encoder whose answer for a text is the mean over its tokens. Never changes."""

    words: Floats
    positions: Floats
    """With the embedding of the first segment added: there never is a second one."""
    norm: _Norm
    layers: tuple[_Layer, ...]
    heads: int

    @property
    def dimension(self) -> int:
        return int(self.words.shape[1])

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """One row for each text, given as its tokens, in the order of the texts.

        It is fastest where texts of equal length stand together.
        """
        runs = _find_runs(texts)
        tokens = np.fromiter((token for text in texts for token in text), np.int64)
        places = np.concatenate([np.arange(len(text)) for text in texts])
        rows = self.norm(self.words[tokens] + self.positions[places])
        for layer in self.layers:
            attended = layer.attention_out(self._attend(layer.attention_in(rows), runs))
            attended += rows
            rows = layer.attention_norm(attended)
            changed = layer.narrow(apply_gelu(layer.wide(rows)))
            changed += rows
            rows = layer.norm(changed)
        return np.concatenate([_mean_tokens(rows, run) for run in runs])

    def _attend(self, mixed: Floats, runs: Iterable[_LengthRun]) -> Floats:
        answer = np.empty((mixed.shape[0], self.dimension), np.float32)
        width = self.dimension // self.heads
        for run in runs:
            parts = mixed[run.rows].reshape(run.texts, run.length, 3, self.heads, width)
            # Heads that lie in one piece are multiplied several times as fast.
            queries, keys, values = np.ascontiguousarray(parts.transpose(2, 0, 3, 1, 4))
            weights = apply_softmax(queries @ keys.swapaxes(2, 3))
            seen = (weights @ values).transpose(0, 2, 1, 3)
            answer[run.rows] = seen.reshape(-1, self.dimension)
        return answer


def build_encoder(tensors: Mapping[str, Floats], heads: int) -> Encoder:
    """The encoder of these weights, which have the names that BERT models give them."""

    def dense(name: str, scale: float = 1.0) -> _Dense:
        weight, bias = tensors[f"{name}.weight"], tensors[f"{name}.bias"]
        factor = np.float32(scale)
        return _Dense(np.ascontiguousarray(weight.T) * factor, bias * factor)

    def norm(name: str) -> _Norm:
        return _Norm(tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    def layer(name: str) -> _Layer:
        query = dense(f"{name}.attention.self.query", (words.shape[1] // heads) ** -0.5)
        others = [dense(f"{name}.attention.self.{part}") for part in ("key", "value")]
        return _Layer(
            _concatenate_heads([query, *others]),
            dense(f"{name}.attention.output.dense"),
            norm(f"{name}.attention.output.LayerNorm"),
            dense(f"{name}.intermediate.dense"),
            dense(f"{name}.output.dense"),
            norm(f"{name}.output.LayerNorm"),
        )

    words = tensors["embeddings.word_embeddings.weight"]
    segment = tensors["embeddings.token_type_embeddings.weight"][0]
    names = {name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}
    return Encoder(
        words,
        tensors["embeddings.position_embeddings.weight"] + segment,
        norm("embeddings.LayerNorm"),
        tuple(layer(f"encoder.layer.{number}") for number in range(len(names))),
        heads,
    )


def apply_gelu(rows: Floats) -> Floats:
    """The Gaussian error linear unit `x * (1 + erf(x / √2)) / 2`; overwrites its argument."""
    flat = rows.reshape(-1)
    for start in range(0, flat.size, _GELU_BLOCK):
        x = flat[start : start + _GELU_BLOCK]
        size = np.abs(x)
        t = np.float32(1) / (np.float32(1) + size * np.float32(_ERF_P * 0.5**0.5))
        tail = np.full_like(t, _ERF[0])
        for coefficient in _ERF[1:]:
            tail *= t
            tail += np.float32(coefficient)
        tail *= t
        # With the tail 1 - erf(|x| / √2) one formula serves both signs, without cancellation.
        tail *= np.exp(size * size * np.float32(-0.5))
        tail *= size
        tail *= np.float32(0.5)
        np.maximum(x, np.float32(0), out=x)
        x -= tail
    return rows


def apply_softmax(scores: Floats) -> Floats:
    """Weights that sum to one along the last axis; overwrites its argument."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


def _concatenate_heads(parts: Sequence[_Dense]) -> _Dense:
    return _Dense(
        np.concatenate([part.weight for part in parts], axis=1),
        np.concatenate([part.bias for part in parts]),
    )


def _find_runs(texts: Sequence[Sequence[int]]) -> list[_LengthRun]:
    runs, start = [], 0
    for length, same in groupby(texts, key=len):
        runs.append(_LengthRun(start, sum(1 for _ in same), length))
        start += runs[-1].texts * length
    return runs


def _mean_tokens(rows: Floats, run: _LengthRun) -> Floats:
    means: Floats = rows[run.rows].reshape(run.texts, run.length, -1).mean(axis=1)
    return means
