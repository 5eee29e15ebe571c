"""Making the social network and writing it down, as Parquet or as bare NumPy columns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.generators.draw import Integers
from bench.generators.files import write_parquet
from bench.generators.social import Pairs, SocialNumbers, draw_numbers, dress
from bench.hashing import hash_rows

# The first conversion loads pandas, if that is installed, which is no part of making a graph.
pa.array(np.zeros(1))

_EDGE_COLUMNS = {
    "Follows": "follows",
    "LivesIn": "lives_in",
    "HasInterest": "has_interest",
    "CityIn": "city_in",
    "StateIn": "state_in",
}


def run_tables(spec: dict[str, Any]) -> dict[str, Any]:
    """Arrow tables with names and ids, as Parquet files."""
    root = Path(spec["root"])

    def write(numbers: SocialNumbers) -> int:
        graph = dress(numbers)
        write_parquet(graph, root)
        return graph.rows

    return _sample(spec, write, lambda name: _parquet_ends(root / f"{name}.parquet"))


def run_numbers(spec: dict[str, Any]) -> dict[str, Any]:
    """Generate the rows as bare numeric columns: the least that could be drawn and written."""
    root = Path(spec["root"])

    def write(numbers: SocialNumbers) -> int:
        for field in fields(numbers):
            value = getattr(numbers, field.name)
            if isinstance(value, Pairs):
                np.concatenate([value.source, value.target]).tofile(root / f"{field.name}.raw")
            elif isinstance(value, np.ndarray):
                value.tofile(root / f"{field.name}.raw")
        return numbers.rows

    return _sample(spec, write, lambda name: _raw_ends(root / f"{_EDGE_COLUMNS[name]}.raw"))


def _sample(
    spec: dict[str, Any],
    write: Callable[[SocialNumbers], int],
    read_ends: Callable[[str], tuple[Integers, Integers]],
) -> dict[str, Any]:
    """Time drawing and writing, then hash the edges as they are read back from the files."""
    parameters = spec["parameters"]
    start = time.perf_counter()
    numbers = draw_numbers(parameters["seed"], parameters["persons"])
    drawn = time.perf_counter()
    rows = write(numbers)
    end = time.perf_counter()
    facts = [_facts(name, *read_ends(name)) for name in _EDGE_COLUMNS]
    return {
        "timings": {"draw": drawn - start, "write": end - drawn, "total": end - start},
        "result_hash": hash_rows(facts),
        "work": {"draw": rows, "write": rows, "total": rows},
        "calls": {"files written": len(list(Path(spec["root"]).iterdir()))},
        "preview": facts,
        "notes": {"rows": rows},
    }


def _facts(name: str, source: Integers, target: Integers) -> list[object]:
    """Figures that change if any edge is lost, doubled or given another end."""
    mixed = (source * 1_000_003 + target) % 2_147_483_647
    return [name, len(source), int(source.sum()), int(target.sum()), int((mixed * mixed).sum())]


def _parquet_ends(path: Path) -> tuple[Integers, Integers]:
    table = pq.read_table(path, columns=["src", "dst"])
    source, target = (
        pc.cast(table[name], "int64").to_numpy().astype(np.int64) - 1 for name in ("src", "dst")
    )
    return source, target


def _raw_ends(path: Path) -> tuple[Integers, Integers]:
    source, target = np.fromfile(path, dtype=np.int64).reshape(2, -1)
    return source, target
