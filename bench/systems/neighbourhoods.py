"""Neighbourhoods of many persons: the sample of persons, and a clock around each answer.

This module is imported in the environment of the peers too, so it needs nothing but Python.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.hashing import canonical, hash_rows
from bench.systems.questions import Rows, timed

SEEDS = "seeds.json"
# Four hops reach most of the network. Of more persons than this a peer computes every
# fourth: all of them, in all rounds, would take it a quarter of an hour.
_DEEP_HOPS, _DEEP_PERSONS, _DEEP_SHARE = 4, 300, 4
DEEP, DEEP_SHARED = "4 hops", "4 hops of every fourth"
_WARM_UP = 10

Ask = Callable[[str, int], Rows]


def ask_around(
    spec: dict[str, Any], open_it: Callable[[], Ask], *, is_fast: bool = False
) -> dict[str, Any]:
    """A sample; `open_it` opens the store and gives what answers a question about a person.

    The questions are `point` and `hops1` to `hops4`. The first answer is timed with the opening.
    A system that `is_fast` computes four hops of all persons; only answers of all systems are
    compared.
    """
    persons = read_seeds(spec)
    start = time.perf_counter()
    ask = open_it()
    ask("hops1", persons[0])
    timings = {"open and 1 hop": [time.perf_counter() - start]}
    facts: list[list[object]] = []
    for measure, question, asked_about in _plan(persons):
        about = partial(ask, question)
        timed(about, asked_about[-_WARM_UP:])
        answers, timings[measure] = timed(about, asked_about)
        for person, rows in zip(asked_about, answers, strict=True):
            facts.extend([measure, person, *row] for row in rows)
    if is_fast and DEEP not in timings:
        _, timings[DEEP] = timed(partial(ask, f"hops{_DEEP_HOPS}"), persons)
    return {
        "timings": timings,
        "result_hash": hash_rows(facts),
        "preview": canonical([facts[0], facts[len(facts) // 2], facts[-1]]),
    }


def read_seeds(spec: dict[str, Any]) -> list[int]:
    """Return the persons of this case."""
    seeds = json.loads((Path(spec["inputs"]) / SEEDS).read_text())
    kind, count = spec["parameters"]["kind"], int(spec["parameters"]["count"])
    return [int(person) for person in seeds[kind][:count]]


def _plan(persons: Sequence[int]) -> Iterator[tuple[str, str, Sequence[int]]]:
    yield "point", "point", persons
    for hops in range(1, _DEEP_HOPS):
        yield ("1 hop" if hops == 1 else f"{hops} hops"), f"hops{hops}", persons
    yield DEEP_SHARED, f"hops{_DEEP_HOPS}", persons[::_DEEP_SHARE]
    if len(persons) <= _DEEP_PERSONS:
        yield DEEP, f"hops{_DEEP_HOPS}", persons
