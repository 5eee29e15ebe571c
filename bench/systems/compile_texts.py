"""The texts of the compile suite, and the loop that all its systems share."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.hashing import hash_rows

_INPUTS = Path(__file__).parent / "compile_inputs"
_SCHEMA = Path(__file__).parent.parent / "generators" / "social.pg"

QUERY_NAME = "kindred"


def schema_text() -> str:
    return _SCHEMA.read_text()


def read_input(name: str) -> str:
    return (_INPUTS / name).read_text()


def time_compiles(
    spec: dict[str, Any], query: str, compile_columns: Callable[[str], Sequence[str]]
) -> dict[str, Any]:
    """A sample: the first compile in this process, then one repetition after another.

    Every repetition has its own limit, so that a cache of whole texts cannot answer for the
    compiler. `compile_columns` gives the names of the columns the query returns, which is what
    all systems must agree on.
    """
    if query.count("20\n") == 0:
        raise ValueError("the query must end with a limit of 20")
    first, repeats = 0.0, []
    columns: Sequence[str] = ()
    for number in range(spec["parameters"]["repetitions"] + 1):
        limit = f"{20 + number}\n"
        text = limit.join(query.rsplit("20\n", 1))
        start = time.perf_counter()
        columns = compile_columns(text)
        elapsed = time.perf_counter() - start
        if number == 0:
            first = elapsed
        else:
            repeats.append(elapsed)
    return {
        "timings": {"first": first, "repeat": repeats},
        "result_hash": hash_rows([list(columns)]),
        "preview": list(columns),
    }
