"""The social network as files, for every system to load, and the persons to ask about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.generators.draw import Draw
from bench.generators.social import SocialNumbers, draw_numbers, dress
from bench.generators.tables import with_integer_endpoints
from bench.systems.neighbourhoods import SEEDS

_RANDOM, _HUBS = 1_000, 100


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """A Parquet file for each type, with numbers as keys and ends, and the persons to ask about."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    numbers = draw_numbers(parameters["seed"], parameters["persons"])
    graph = dress(numbers)
    for name, table in {**graph.nodes, **with_integer_endpoints(graph.edges)}.items():
        _write(table, root / f"{name}.parquet")
    (root / SEEDS).write_text(json.dumps(_seeds(parameters["seed"], numbers)))
    return {}


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")


def _seeds(seed: int, numbers: SocialNumbers) -> dict[str, list[int]]:
    """Random persons, and those who follow most."""
    drawn = Draw(seed, "neighbourhood seeds").integers(_RANDOM, numbers.persons)
    degree = np.bincount(numbers.follows.source, minlength=numbers.persons)
    hubs = np.argsort(-degree, kind="stable")[:_HUBS]
    return {"random": (drawn + 1).tolist(), "hub": (hubs + 1).tolist()}
