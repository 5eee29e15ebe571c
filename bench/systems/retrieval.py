"""Searches in a library of documents: a clock around each, and how good the answers are.

Approximate searches cannot be held to equal answers. They are held to equal goodness: all systems
must find at least 95 of 100 documents of the exact answer, and that is what the result hash says.
A hybrid search is held to the exact answer of its own definition: ours fuses the ten nearest with
every text that has one of the words, others fuse the ten best of both rankings.
This module is imported in the environment of the peers too, so it needs nothing but Python.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.hashing import hash_rows

DOCUMENTS = "Document.parquet"
SEARCHES = "searches.json"
KINDS = ("vector", "text", "hybrid")
HYBRID_OF_TENS = "hybrid of tens"
FOUND = 10
ENOUGH = 0.95
_WARM_UP = 5

Search = Mapping[str, Any]
Find = Callable[[str, Search], Sequence[str]]
"""A function from the kind of search and its argument to the keys of the documents found."""


def search_all(
    spec: dict[str, Any],
    open_it: Callable[[], Find],
    *,
    hybrid: str = "hybrid",
    notes: Mapping[str, object],
) -> dict[str, Any]:
    """A sample; `open_it` opens the store and gives what finds documents.

    The first hybrid answer is timed with the opening; it includes filling the caches.
    `hybrid` names the definition of a correct hybrid answer.
    """
    searches = json.loads((Path(spec["inputs"]) / SEARCHES).read_text())
    start = time.perf_counter()
    find = open_it()
    find("hybrid", searches[0])
    timings = {"open and hybrid": [time.perf_counter() - start]}
    recalls = {}
    for kind in KINDS:
        for search in searches[-_WARM_UP:]:
            find(kind, search)
        definition = hybrid if kind == "hybrid" else kind
        recalls[kind], timings[kind] = _recall(kind, definition, find, searches)
    facts = [[kind, "enough" if recall >= ENOUGH else recall] for kind, recall in recalls.items()]
    return {
        "timings": timings,
        "result_hash": hash_rows(facts),
        "preview": recalls,
        "notes": {**notes, "recall": recalls},
    }


def _recall(
    kind: str, definition: str, find: Find, searches: Sequence[Search]
) -> tuple[float, list[float]]:
    """The share of the exact answers that was found, and the seconds of each search."""
    hits, wanted, seconds = 0, 0, []
    for search in searches:
        start = time.perf_counter()
        found = find(kind, search)
        seconds.append(time.perf_counter() - start)
        exact = search["exact"][definition]
        hits += len(set(found[:FOUND]) & set(exact))
        wanted += len(exact)
    return hits / wanted, seconds
