"""The library of documents, what to search for in it, and the exact answers.

The exact answers are computed here, from the definitions: Euclidean distance, BM25 with k1 = 1.2
and b = 0.75 over the whole library, and the sum of 1 / (60 + rank) over the ten nearest and either
all texts with one of the words or the ten best. The words of the library are made up so that every
analyser leaves them as they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.generators.documents import DEFAULT_DIMENSION, document_graph
from bench.generators.draw import Draw, Floats, Integers
from bench.systems.retrieval import DOCUMENTS, FOUND, HYBRID_OF_TENS, SEARCHES

_K1, _B, _FUSE = 1.2, 0.75, 60
_WORDS_ASKED = 3
_NOISE = 0.1

Vectors = NDArray[np.float32]


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """The documents as one Parquet file, and the searches with their answers."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    seed = parameters["seed"]
    documents = document_graph(seed, parameters["documents"]).nodes["Document"]
    pq.write_table(documents, root / DOCUMENTS, compression="zstd")
    library = _Library.of(documents)
    searches = [library.search(seed, index) for index in range(parameters["searches"])]
    (root / SEARCHES).write_text(json.dumps(searches))
    return {}


@dataclass(frozen=True, slots=True)
class _Library:
    """The documents as arrays: vectors, and the words of all texts in order of the word."""

    slugs: NDArray[np.object_]
    vectors: Vectors
    texts: pa.Array
    lengths: Integers
    vocabulary: dict[str, int]
    words: Integers
    owners: Integers

    @classmethod
    def of(cls, documents: pa.Table) -> _Library:
        texts = documents["body"].combine_chunks()
        split = pc.split_pattern(texts, " ")
        lengths = pc.list_value_length(split).to_numpy().astype(np.int64)
        coded = pc.list_flatten(split).dictionary_encode()
        words = coded.indices.to_numpy().astype(np.int64)
        order = np.argsort(words, kind="stable")
        owners = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
        vectors = documents["embedding"].combine_chunks().flatten().to_numpy()
        return cls(
            slugs=np.asarray(documents["slug"].to_pylist(), dtype=object),
            vectors=vectors.reshape(-1, DEFAULT_DIMENSION),
            texts=texts,
            lengths=lengths,
            vocabulary={word: code for code, word in enumerate(coded.dictionary.to_pylist())},
            words=words[order],
            owners=owners[order],
        )

    def search(self, seed: int, number: int) -> dict[str, Any]:
        """Something near a document that exists: its vector, shaken, and a few of its words."""
        draw = Draw(seed, f"search {number}")
        index = int(draw.integers(1, len(self.slugs))[0])
        shaken = self.vectors[index] + _NOISE * draw.normal(DEFAULT_DIMENSION)
        vector = shaken.astype(np.float32)
        asked = self.texts[index].as_py().split(" ")[:_WORDS_ASKED]
        nearest = np.argsort(self._distances(vector), kind="stable")
        scores = self._scores(asked)
        best = np.argsort(-scores, kind="stable")[: np.count_nonzero(scores)]
        return {
            "vector": vector.tolist(),
            "text": " ".join(asked),
            "exact": {
                "vector": self._found(nearest),
                "text": self._found(best),
                "hybrid": self._found(_fused(nearest[:FOUND], best)),
                HYBRID_OF_TENS: self._found(_fused(nearest[:FOUND], best[:FOUND])),
            },
        }

    def _found(self, ranking: Integers) -> list[str]:
        return [str(slug) for slug in self.slugs[ranking[:FOUND]]]

    def _distances(self, vector: Vectors) -> Floats:
        apart = self.vectors.astype(np.float64) - vector.astype(np.float64)
        return np.asarray(np.einsum("ij,ij->i", apart, apart), dtype=np.float64)

    def _scores(self, asked: list[str]) -> Floats:
        total = np.zeros(len(self.slugs), dtype=np.float64)
        shape = _K1 * (1 - _B + _B * self.lengths / self.lengths.mean())
        for word in sorted(set(asked)):
            code = self.vocabulary[word]
            start, end = np.searchsorted(self.words, [code, code + 1])
            counts = np.bincount(self.owners[start:end], minlength=len(total))
            holders = np.count_nonzero(counts)
            rarity = np.log(1 + (len(total) - holders + 0.5) / (holders + 0.5))
            total += rarity * counts * (_K1 + 1) / (counts + shape)
        return total


def _fused(first: Integers, second: Integers) -> Integers:
    """Both rankings as one; equal sums keep the order of the first ranking, then of the second."""
    score: dict[int, float] = {}
    for ranking in (first, second):
        for rank, index in enumerate(ranking.tolist(), start=1):
            score[index] = score.get(index, 0.0) + 1.0 / (_FUSE + rank)
    return np.asarray(sorted(score, key=lambda index: -score[index]), dtype=np.int64)
