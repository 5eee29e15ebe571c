"""The questions of a suite: their texts, their parameters, and a clock around each answer.

This module is imported in the environment of the peers too, so it needs nothing but Python.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench.hashing import canonical, hash_rows

Rows = Sequence[Sequence[object]]
Given = Mapping[str, object]
AskByName = Callable[[str], Rows]

_HEADING = re.compile(r"(?m)^(?://|--) (\w+): .*\n")

QUESTIONS = tuple(f"q{number}" for number in range(1, 10))
# The published comparison leaves out the two that only count paths.
COMPARED = QUESTIONS[:7]
GEOMEAN = "q1–q7"

PARAMETERS: Mapping[str, Given] = {
    "q3": {"country": "United States"},
    "q4": {"youngest": 30, "oldest": 40},
    "q5": {
        "gender": "male",
        "city": "London",
        "country": "United Kingdom",
        "interest": "Fine Dining",
    },
    "q6": {"gender": "female", "interest": "Tennis"},
    "q7": {
        "country": "United States",
        "youngest": 23,
        "oldest": 30,
        "interest": "Photography",
    },
    "q9": {"below": 50, "above": 25},
}


def texts(name: str) -> dict[str, str]:
    """The questions of a file, by the name in the comment above each."""
    text = (Path(__file__).parent / "social_texts" / name).read_text()
    parts = _HEADING.split(text)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def ask_all(spec: dict[str, Any], open_it: Callable[[], AskByName]) -> dict[str, Any]:
    """A sample of the nine questions; `open_it` opens the store and gives what answers one.

    The first answer is timed with the opening, as a program waits for it. Every question is then
    run a few times before its clock starts.
    """
    warm_up, repetitions = (int(spec["parameters"][n]) for n in ("warm_up", "repetitions"))
    start = time.perf_counter()
    ask = open_it()
    ask("q1")
    timings: dict[str, list[float]] = {"open and q1": [time.perf_counter() - start]}
    answers: dict[str, Rows] = {}
    for name in QUESTIONS:
        for _ in range(warm_up):
            ask(name)
        found, timings[name] = timed(ask, [name] * repetitions)
        answers[name] = found[-1]
    means = [math.log(median(timings[name])) for name in COMPARED]
    timings[GEOMEAN] = [math.exp(sum(means) / len(means))]
    return {
        "timings": timings,
        "result_hash": hash_rows([name, *row] for name, rows in answers.items() for row in rows),
        "preview": canonical({name: rows[:3] for name, rows in answers.items()}),
    }


def timed(ask: Callable[[Any], Rows], items: Iterable[Any]) -> tuple[list[Rows], list[float]]:
    """The answer to each item, and the seconds it took."""
    answers, seconds = [], []
    for item in items:
        start = time.perf_counter()
        rows = ask(item)
        seconds.append(time.perf_counter() - start)
        answers.append(rows)
    return answers, seconds
