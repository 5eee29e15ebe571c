"""Creating, listing and writing branches where there are ever more of them.

A graph with branches cannot be moved, because Lance stores the address of what a branch was made
from. A copy reads the files of the folder it was copied from, which outlives every sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import lance

from bench.systems.bare_tables import FORMAT, NOTES, table_of
from bench.systems.changes import NOTE, Row, hash_of, insert, preview_of
from bench.systems.prepared import copied
from bench.systems.small_graph import SmallGraph
from bench.systems.yardstick import Yardstick

_BASE_ROWS = tuple(Row(NOTE, f"note-{number}", number) for number in range(100))
_SCHEMA = "node Note { text: String  number: I64 }"


class Branching(Protocol):
    """A graph or a table that has branches."""

    def create(self, name: str) -> None: ...

    def names(self) -> Sequence[str]: ...

    def write(self, step: int, branch: str | None = None) -> None: ...

    def rows(self, branch: str | None = None) -> Iterable[Row]: ...


class BranchingTable:
    """A bare table. Its branches are created immediately, those of a graph with the first write."""

    def __init__(self, table: lance.LanceDataset) -> None:
        self._main = table
        self._open: dict[str, lance.LanceDataset] = {}

    def create(self, name: str) -> None:
        self._open[name] = self._main.create_branch(name)

    def names(self) -> Sequence[str]:
        return ["main", *self._main.branches.list()]

    def write(self, step: int, branch: str | None = None) -> None:
        table = self._main if branch is None else self._open[branch]
        table.insert(table_of(insert(step).puts))

    def rows(self, branch: str | None = None) -> Iterable[Row]:
        table = self._main if branch is None else self._open[branch]
        return [Row(NOTE, line["id"], line["value"]) for line in table.to_table().to_pylist()]


class BranchingGraph:
    def __init__(self, graph: SmallGraph) -> None:
        self._graph = graph.graph

    def create(self, name: str) -> None:
        self._graph.create_branch(name)

    def names(self) -> Sequence[str]:
        return self._graph.branches()

    def write(self, step: int, branch: str | None = None) -> None:
        SmallGraph(self._graph, branch or "main").apply(insert(step))

    def rows(self, branch: str | None = None) -> Iterable[Row]:
        return SmallGraph(self._graph, branch or "main").rows()


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph and a table, each with the branches of the case, `main` not counted."""
    root = Path(spec["root"])
    table = lance.write_dataset(table_of(_BASE_ROWS), str(root / "table.lance"), **FORMAT)
    graph = SmallGraph.create(root / "graph", _BASE_ROWS, _SCHEMA)
    both: tuple[Branching, ...] = (BranchingTable(table), BranchingGraph(graph))
    for branching in both:
        for number in range(spec["parameters"]["branches"]):
            branching.create(f"prepared-{number}")
    return {}


def run_table(spec: dict[str, Any]) -> dict[str, Any]:
    return _sample(spec, BranchingTable(lance.dataset(str(copied(spec, "table.lance")))))


def run_graph(spec: dict[str, Any]) -> dict[str, Any]:
    return _sample(spec, BranchingGraph(SmallGraph.open(copied(spec, "graph"))))


def _sample(spec: dict[str, Any], branching: Branching) -> dict[str, Any]:
    repetitions = spec["parameters"]["repetitions"]
    fresh = [f"fresh-{number}" for number in range(repetitions)]
    branching.write(0)  # the first write of a process also meets cold caches
    yardstick, steps = Yardstick(Path(spec["root"])), range(1, 1 + repetitions)
    clock = yardstick.timed
    listed = [clock(branching.names)[1].wall for _ in fresh]
    main = [clock(partial(branching.write, step))[1].wall for step in steps]
    created = [clock(partial(branching.create, name))[1].wall for name in fresh]
    first = [clock(partial(branching.write, -1, name))[1].wall for name in fresh]
    rows = [*branching.rows(), *(row for name in fresh[:2] for row in branching.rows(name))]
    names = [Row("branch", name, 0) for name in branching.names()]
    return {
        "timings": {"create": created, "list": listed, "main commit": main, "first write": first}
        | {"yardstick": yardstick.seconds},
        "result_hash": hash_of([*rows, *names]),
        "work": {"list": len(names)},
        "preview": {**preview_of(rows), "branches": len(names)},
        "notes": NOTES,
    }
