"""Works on a graph after this process lost, for good, something that writing needs.

deprived.py WHAT PLACE ELSEWHERE, where WHAT is

    links   hard links, which some file systems do not have
    rights  the right to write at PLACE, which was already revoked
    sight   the right to read there as well, so that nothing can be opened before

Everything is tried once before, at ELSEWHERE, and once after. Prints one line of JSON: how each
attempt ended, by its name.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import omnigraph
from crash.crash_checks import content_of
from crash.crash_scenario import BASE, SCHEMA, create, run
from crash.tracer import refuse_links
from omnigraph import Graph
from omnigraph.errors import OmniError, StorageFailure

NOBODY = 65534
READS = ("read", "open to read", "pending")


def attempts(graph: Graph, place: Path) -> Mapping[str, Callable[[], object]]:
    """The operations tried with an open graph and its address."""
    before = content_of(graph)

    def is_the_same(reader: Graph) -> None:
        assert content_of(reader) == before

    return {
        "insert": lambda: run(graph, 'insert Person {slug: "eve", name: "Eve"}'),
        "delete": lambda: run(graph, 'delete Person where slug = "ada"'),
        "overwrite": lambda: graph.load(BASE, "overwrite"),
        "write on a branch": lambda: run(graph, 'delete Person where slug = "ada"', "dev"),
        "create a branch": lambda: graph.create_branch("new"),
        "recover": graph.recover,
        "open to write": lambda: omnigraph.open(place),
        "create": lambda: omnigraph.init(place.with_name("new"), SCHEMA),
        "read": lambda: is_the_same(graph),
        "open to read": lambda: is_the_same(omnigraph.open(place, read_only=True)),
        "pending": omnigraph.open(place, read_only=True).recovery_pending,
        "delete a branch": lambda: graph.delete_branch("old"),
    }


def openings(place: Path) -> Mapping[str, Callable[[], object]]:
    return {
        "open to write": lambda: omnigraph.open(place),
        "open to read": lambda: omnigraph.open(place, read_only=True),
        "create": lambda: omnigraph.init(place, SCHEMA),
        "replace": lambda: omnigraph.init(place, SCHEMA, force=True),
    }


def ended(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except StorageFailure as error:
        return f"StorageFailure {error.kind}: {error}"
    except OmniError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def lose(what: str) -> None:
    if what == "links":
        refuse_links()
    elif os.getuid() == 0:  # root may do anything, so change the user
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)


def main(what: str, place: Path, elsewhere: Path) -> None:
    graph = create(elsewhere)
    graph.create_branch("dev")
    graph.create_branch("old")
    for name, attempt in attempts(graph, elsewhere).items():
        if name not in READS:  # which would find it changed
            attempt()  # whatever is imported late is imported now
    tried = openings(place) if what == "sight" else attempts(omnigraph.open(place), place)
    lose(what)
    print(json.dumps({name: ended(attempt) for name, attempt in tried.items()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
