"""Graphs with rows in them, made once and copied wherever a run needs one.

Loading and indexing take longer than the rest of a run. A copy has the identity of what it was
copied from and grows another history, so it is also what a restored backup is.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import omnigraph
from reads.read_model import SCHEMAS, Line, World, empty
from reads.read_writes import Writer

COPIES = 2
ROWS = 30


class Filling(Writer):
    """Load the initial rows of a run into an empty graph."""

    def __init__(self, place: Path, schema: int) -> None:
        self.graph = omnigraph.init(place, SCHEMAS[schema])
        self.world = World(0, {"main": Line(0, empty())})
        self.incarnations = 0

    def fill(self, random: Random, *, is_indexed: bool) -> World:
        """Rows; with `is_indexed` also indexes, and rows deleted since."""
        self._append(random, "main", ROWS)
        if is_indexed:
            self.graph.optimize()
            self.world.branches["main"].moves += 1
            self._delete_rows(random, "main", "Person")
        return self.world


@dataclass(frozen=True)
class Template:
    place: Path
    is_indexed: bool
    world: World


class Templates:
    def __init__(self, folder: Path) -> None:
        self._templates: list[Template] = []
        for number in range(COPIES * len(SCHEMAS)):
            for is_indexed in (False, True):
                place = folder / f"template{number}-{is_indexed}.omni"
                filling = Filling(place, number % len(SCHEMAS))
                world = filling.fill(Random(f"{place.name}"), is_indexed=is_indexed)
                filling.graph.close()
                self._templates.append(Template(place, is_indexed, world))

    def copy(self, random: Random, place: Path, *, is_indexed: bool) -> World:
        """Copy one of those that are indexed, or of those that are not; gives what it shows."""
        template = random.choice([t for t in self._templates if t.is_indexed == is_indexed])
        shutil.copytree(template.place, place)
        return template.world


def as_graph(world: World, graph_number: int, incarnation: int) -> World:
    """The world of a copy, under numbers of its own."""
    line = replace(world.branches["main"], incarnation=incarnation)
    commits = [replace(commit, incarnation=incarnation) for commit in world.commits]
    return World(graph_number, {"main": line}, commits)
