"""The music graph the behaviour tests share: a schema, its rows, and short ways to use both."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph import Graph
from omnigraph.errors import OmniError

SCHEMA = (Path(__file__).parents[1] / "cases/schema/valid/music.pg").read_text()

UNKNOWN_COMMIT = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
"""The id of a commit that no graph has."""
LABELS = (
    {"slug": "wave", "name": "Wave Records", "founded": "1979-03-01", "country": "uk"},
    {"slug": "nova", "name": "Nova", "founded": "2001-11-20", "country": "jp"},
    {"slug": "drift", "name": "Drift"},
)
ARTISTS = (
    {"slug": "ada", "name": "Ada Voss", "born": 1970, "genres": ["ambient", "dub"]},
    {"slug": "ben", "name": "Ben Oru", "born": 1985, "genres": ["dub"]},
    {"slug": "cy", "name": "Cy Lenz", "genres": []},
    {"slug": "dee", "name": "Dee Park", "born": 1985},
    {"slug": "fay", "name": "Fay Quill", "born": 1992, "genres": ["ambient"]},
)
ALBUMS = (
    {"slug": "tides", "title": "Slow Tides", "released": "1999-05-04", "rating": 8.5}
    | {"plays": 120, "vibe": [1, 0, 0]},
    {"slug": "embers", "title": "Night Embers", "released": "2005-01-10", "rating": 7.0}
    | {"plays": 9007199254740993, "vibe": [0, 1, 0]},
    {"slug": "tidal", "title": "Tidal Maps", "released": "2012-09-09", "plays": 40}
    | {"vibe": [0.9, 0.1, 0]},
    {"slug": "static", "title": "Static Garden", "rating": 9.0},
)
EDGES = (
    ("SignedTo", "ada", "wave", {"since": "1998-01-01", "advance": 500}),
    ("SignedTo", "ben", "nova", {}),
    ("SignedTo", "fay", "wave", {"since": "2015-06-01", "advance": 900}),
    ("Made", "ada", "tides", {"role": "lead"}),
    ("Made", "ada", "embers", {"role": "guest"}),
    ("Made", "ben", "embers", {"role": "lead"}),
    ("Made", "fay", "tidal", {"role": "lead"}),
    ("Made", "cy", "static", {}),
    ("Influences", "ada", "ben", {"id": "i1", "weight": 0.9}),
    ("Influences", "ben", "cy", {"id": "i2", "weight": 0.4}),
    ("Influences", "cy", "ada", {"id": "i3", "weight": 0.2}),
    ("Influences", "ada", "ben", {"id": "i4", "weight": 0.3}),
    ("Influences", "dee", "dee", {"id": "i5", "weight": 1.0}),
    ("Influences", "dee", "fay", {"id": "i6", "weight": 0.5}),
    ("Sampled", "tidal", "tides", {}),
    ("Sampled", "embers", "tides", {}),
)

LABEL = 'insert Label {{slug: "{0}", name: "{0}"}}'
"""Adds a row of this name, by `format`."""


def node(type_name: str, **data: object) -> dict[str, object]:
    return {"type": type_name, "data": data}


def edge(type_name: str, source: str, target: str, **data: object) -> dict[str, object]:
    return {"edge": type_name, "from": source, "to": target, "data": data}


RECORDS = [
    *(edge(name, source, target, **data) for name, source, target, data in EDGES),
    *(node("Label", **data) for data in LABELS),
    *(node("Artist", **data) for data in ARTISTS),
    *(node("Album", **data) for data in ALBUMS),
]


def run(graph: Graph, statements: str, parameters: str = "", /, **given: object):
    """Run statements as one mutation; `parameters` declares what `params` gives."""
    return graph.mutate(f"query q({parameters}) {{ {statements} }}", **given)


def add_artist(graph: Graph, slug: str, branch: str = "main", **given: object):
    """The commit of a new artist."""
    return run(graph, f'insert Artist {{slug: "{slug}", name: "N"}}', branch=branch, **given).commit


def affected(graph: Graph, statements: str, parameters: str = "", /, **given: object):
    """Return the number of nodes and edges that the statements affected."""
    result = run(graph, statements, parameters, **given)
    return result.affected_nodes, result.affected_edges


def contents(graph: Graph, types: list[str] | None = None, *, branch: str = "main"):
    """Every record of a branch."""
    return list(graph.export(types, branch=branch))


def everything(graph: Graph):
    """The rows of every branch, and of every commit, which must all be readable."""
    rows = {name: contents(graph, branch=name) for name in graph.branches()}
    return rows | {
        (name, c.commit_id): list(graph.at(commit=c.commit_id).export())
        for name in graph.branches()
        for c in graph.commits(name)
    }


def entities(graph: Graph, type_name: str, *, branch: str = "main") -> dict[str, dict]:
    """The properties of every entity of a type, by id; edges have `from` and `to` besides."""
    found = {}
    for record in graph.export([type_name], branch=branch):
        ends = {name: record[name] for name in ("from", "to") if name in record}
        found[record["data"]["id"]] = record["data"] | ends
    return found


def ids(graph: Graph, type_name: str, *, branch: str = "main") -> set[str]:
    return set(entities(graph, type_name, branch=branch))


def refusal(error: type[OmniError] | tuple[type[OmniError], ...], text: str):
    """Expects an error that contains a text."""
    return pytest.raises(error, match=re.escape(text))


def files_below(place: Path) -> Iterator[tuple[str, int, int]]:
    """Every file with its size and the moment it was last changed."""
    for path in sorted(place.rglob("*")):
        if path.is_file():
            found = path.stat()
            yield str(path.relative_to(place)), found.st_size, found.st_mtime_ns


def run_together(count, work):
    """Return the result or error of each thread's work; all start together."""
    gate = threading.Barrier(count)

    def one(number):
        gate.wait()
        try:
            return work(number)
        except OmniError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
