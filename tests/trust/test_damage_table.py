"""Each kind of file, deleted, cut or with a bit flipped, against every verb.

The expected column has one entry: a typed error or the right answer, and verify finds it. A cleanup
beside the damage must not cost anything either: with the file put back, all is as it was.

By default a sample runs, each kind of file against two of the verbs, with the seed in the name of
each test; `-m fuzz` runs the rest.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import OmniError
from omnigraph.maintenance.maintenance_results import VerifyResult
from trust.damage import (
    BRANCHES,
    CHECKED,
    KINDS,
    PEOPLE,
    TAG,
    WAYS,
    Case,
    build,
    files_of_tables,
    insert,
    interrupt,
    restore,
)

SEEDS = {"delete": 4, "cut": 4, "flip": 12}
VERBS = ("query", "write", "verify", "cleanup")
EVERY = [Case(kind, way, seed) for kind in KINDS for way in WAYS for seed in range(SEEDS[way])]


def _sample() -> set[tuple[Case, str]]:
    """Each kind of file twice, damaged in a drawn way, against two of the four verbs."""
    chance = random.Random(14)
    drawn = [(kind, VERBS[at % 2 :: 2]) for at, kind in enumerate(KINDS)]
    return {
        (Case(kind, chance.choice(list(WAYS)), 0), verb) for kind, verbs in drawn for verb in verbs
    }


_SAMPLED = _sample()


def cases(verb: str) -> pytest.MarkDecorator:
    """Every damage, most of them for the long run only."""
    given = [
        pytest.param(case, id=str(case), marks=() if (case, verb) in _SAMPLED else pytest.mark.fuzz)
        for case in EVERY
    ]
    return pytest.mark.parametrize("case", given)


Rows = dict[str, list[tuple[object, ...]]]


class Ground:
    """The graph, what is right about it, and what cleanup leaves of it."""

    def __init__(self, folder: Path) -> None:
        self.place, self._pristine = folder / "graph", folder / "pristine"
        build(self.place)
        interrupt(self.place)
        restore(self.place, self._pristine)
        self.people = people(self.place)
        self.known = format_findings(verify(self.place))
        self.survivors = self._clean_up()
        self.recovered = people(self.place)
        self.afresh()
        min(self.place.glob("nodes/*/_versions/*.manifest")).unlink()  # what was being written
        self.survivors_of_undoing = self._clean_up()
        assert people(self.place) == self.people

    def _clean_up(self) -> set[str]:
        """The files that a cleanup leaves of those present before."""
        before = files_of_tables(self.place)
        omnigraph.open(self.place, settings=CHECKED).cleanup(keep=1, confirm=True)
        return before & files_of_tables(self.place)

    @property
    def reading(self) -> dict[str, Any]:
        return {"uri": self.place, "read_only": True, "settings": CHECKED}

    def afresh(self) -> None:
        restore(self._pristine, self.place)


@pytest.fixture(scope="module")
def ground(tmp_path_factory) -> Ground:
    return Ground(tmp_path_factory.mktemp("damage"))


def people(place: Path) -> Rows:
    with omnigraph.open(place, read_only=True, settings=CHECKED) as graph:
        return {branch: rows_of(graph, branch) for branch in (*BRANCHES, TAG)}


def rows_of(graph: omnigraph.Graph, branch: str) -> list[tuple[object, ...]]:
    """Return the rows of a branch, or of the tag."""
    found = graph.at(TAG).query(PEOPLE) if branch == TAG else graph.query(PEOPLE, branch=branch)
    return sorted((tuple(row.values()) for row in found.rows), key=str)


def verify(place: Path) -> VerifyResult:
    with omnigraph.open(place, read_only=True) as graph:
        return graph.verify(deep=True, history=True)


def format_findings(result: VerifyResult) -> set[str]:
    return {f"{one.check} {one.message}" for one in (*result.findings, *result.notes)}


@cases("query")
def test_a_query_gives_a_typed_error_or_the_right_answer(ground, case):
    ground.afresh()
    case.applied(ground.place)
    for branch in (*BRANCHES, TAG):
        with suppress(OmniError), omnigraph.open(**ground.reading) as graph:
            assert rows_of(graph, branch) == ground.people[branch]


@cases("write")
def test_a_write_raises_a_typed_error_or_is_committed(ground, case):
    ground.afresh()
    case.applied(ground.place)
    for branch in BRANCHES:
        with suppress(OmniError), omnigraph.open(ground.place, settings=CHECKED) as graph:
            graph.mutate(insert("new"), branch=branch)
            # The interrupted write is finished, or undone where it lacks a file of its own.
            allowed = (ground.recovered[branch], ground.people[branch])
            expected = [sorted([*rows, ("new", 7)], key=str) for rows in allowed]
            assert rows_of(graph, branch) in expected


@cases("verify")
def test_verify_finds_it(ground, case):
    ground.afresh()
    damaged = case.applied(ground.place)
    try:
        found = format_findings(verify(ground.place)) - ground.known
    except OmniError:
        return
    assert found or not damaged.is_changed, f"{damaged.name} was damaged"


@cases("cleanup")
def test_cleanup_costs_nothing(ground, case):
    ground.afresh()
    damaged = case.applied(ground.place)
    is_done = False
    with suppress(OmniError), omnigraph.open(ground.place, settings=CHECKED) as graph:
        graph.cleanup(keep=1, confirm=True)
        is_done = True
    if not is_done or damaged.name in ground.survivors:
        damaged.undo()
    now = people(ground.place)
    assert now in (ground.people, ground.recovered), f"{damaged.name} was damaged"
    # A write that was interrupted, and now lacks a file of its own, is undone.
    is_undone = now == ground.people and not any(ground.place.glob("__recovery/*.json"))
    needed = ground.survivors_of_undoing if is_undone else ground.survivors
    gone = needed - files_of_tables(ground.place)
    assert gone == set(), f"{damaged.name} was damaged"
