"""A BERT encoder with few, random weights, and the same computed number by number."""

from __future__ import annotations

import math

import numpy as np

HEADS, DIMENSION, WIDE, WORDS, LONGEST, LAYERS = 2, 8, 20, 50, 16, 2


def random_tensors(seed: int = 7) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    tensors = {}

    def add(name: str, *shape: int) -> None:
        tensors[name] = random.normal(0, 0.7, shape).astype(np.float32)

    def add_pair(name: str, *shape: int) -> None:
        add(f"{name}.weight", *shape)
        add(f"{name}.bias", shape[0])

    for name, rows in (("word", WORDS), ("position", LONGEST), ("token_type", 2)):
        add(f"embeddings.{name}_embeddings.weight", rows, DIMENSION)
    add_pair("embeddings.LayerNorm", DIMENSION)
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        for part in ("query", "key", "value"):
            add_pair(f"{layer}.attention.self.{part}", DIMENSION, DIMENSION)
        add_pair(f"{layer}.attention.output.dense", DIMENSION, DIMENSION)
        add_pair(f"{layer}.attention.output.LayerNorm", DIMENSION)
        add_pair(f"{layer}.intermediate.dense", WIDE, DIMENSION)
        add_pair(f"{layer}.output.dense", DIMENSION, WIDE)
        add_pair(f"{layer}.output.LayerNorm", DIMENSION)
    return tensors


def exact_gelu(x: float) -> float:
    return x * 0.5 * math.erfc(-x / math.sqrt(2))


def exact_vector(tensors: dict[str, np.ndarray], tokens: list[int], heads: int) -> np.ndarray:
    """The mean over the tokens of one text, in double precision and as the papers write it."""
    exact = {name: values.astype(np.float64) for name, values in tensors.items()}

    def dense(name, rows):
        return rows @ exact[f"{name}.weight"].T + exact[f"{name}.bias"]

    def norm(name, rows):
        centred = rows - rows.mean(axis=1, keepdims=True)
        scaled = centred / np.sqrt(rows.var(axis=1, keepdims=True) + 1e-12)
        return scaled * exact[f"{name}.weight"] + exact[f"{name}.bias"]

    def attention(name, rows):
        parts = [dense(f"{name}.self.{part}", rows) for part in ("query", "key", "value")]
        seen = []
        for query, key, value in zip(*(np.split(p, heads, axis=1) for p in parts), strict=True):
            weights = np.exp(query @ key.T / math.sqrt(query.shape[1]))
            seen.append(weights / weights.sum(axis=1, keepdims=True) @ value)
        return dense(f"{name}.output.dense", np.concatenate(seen, axis=1))

    rows = exact["embeddings.word_embeddings.weight"][tokens]
    rows = rows + exact["embeddings.position_embeddings.weight"][: len(tokens)]
    rows = rows + exact["embeddings.token_type_embeddings.weight"][0]
    rows = norm("embeddings.LayerNorm", rows)
    count = len({name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")})
    for layer in (f"encoder.layer.{number}" for number in range(count)):
        attended = attention(f"{layer}.attention", rows)
        rows = norm(f"{layer}.attention.output.LayerNorm", rows + attended)
        wide = np.vectorize(exact_gelu)(dense(f"{layer}.intermediate.dense", rows))
        rows = norm(f"{layer}.output.LayerNorm", rows + dense(f"{layer}.output.dense", wide))
    return rows.mean(axis=0)
