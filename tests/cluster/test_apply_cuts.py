"""Applying a cluster, killed after each of its durable writes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
from cluster.cluster_checks import apply_until_converged, check_converged, list_graphs
from cluster.conftest import write_files
from crash.crash_scenario import CLUSTER_APPLY
from crash.harness import Workers, side_by_side
from omnigraph.cluster import approve_change, read_cluster_status, read_serving_snapshot

pytestmark = [pytest.mark.crash, pytest.mark.usefixtures("tables_in_turn")]


def edit(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def change_schema(folder: Path) -> None:
    edit(folder, "library.pg", "title: String", "title: String  pages: I32?")
    edit(folder, "queries/books.gq", "$b.title", "$b.pages")


def delete_people(folder: Path) -> None:
    edit(folder, "cluster.yaml", "  people:\n    schema: people.pg\n", "")
    approve_change(folder, "graph.people", actor="maria")


def bind_otherwise(folder: Path) -> None:
    edit(folder, "cluster.yaml", "applies_to: [library]", "applies_to: [people]")


def do_everything(folder: Path) -> None:
    change_schema(folder)
    edit(folder, "cluster.yaml", "graphs:\n", "graphs:\n  towns: {schema: people.pg}\n")
    edit(folder, "readers.policy.yaml", "ada", "ben")
    delete_people(folder)


@dataclass(frozen=True)
class Scenario:
    """A change to the configuration before it is applied, and the graphs expected afterwards."""

    prepare: Callable[[Path], None]
    graphs: tuple[str, ...]
    is_new: bool = False


SCENARIOS = {
    "create": Scenario(lambda folder: None, ("library", "people"), is_new=True),
    "schema": Scenario(change_schema, ("library", "people")),
    "delete": Scenario(delete_people, ("library",)),
    "binding": Scenario(bind_otherwise, ("library", "people")),
    "everything": Scenario(do_everything, ("library", "towns")),
}


class ApplySweep:
    """One apply, killed at many writes, each time in a folder of its own."""

    def __init__(self, workers: Workers, applied: Path, folder: Path, scenario: Scenario) -> None:
        self._workers, self._folder, self._scenario = workers, folder, scenario
        self._template = folder / "template"
        if scenario.is_new:
            self._template.mkdir()
            write_files(self._template)
        else:
            shutil.copytree(applied, self._template)
            add_book(self._template)
        scenario.prepare(self._template)
        whole = self._copy("whole")
        ended = workers.run(whole, CLUSTER_APPLY)
        assert ended.is_acknowledged
        self.writes = ended.writes
        self.digests = check_converged(whole).resource_digests

    def _copy(self, name: str) -> Path:
        shutil.copytree(self._template, self._folder / name)
        return self._folder / name

    def cut(self, after: int, *, by_file: bool = False) -> None:
        place = self._copy(f"cut-{after}-{by_file}")
        ended = self._workers.run(place, CLUSTER_APPLY, after, by_file=by_file)
        if ended.is_acknowledged:
            status = read_cluster_status(place)
            assert status.resource_digests == self.digests, "what was acknowledged is lost"
        status = apply_until_converged(place)
        assert status.resource_digests == self.digests
        assert list_graphs(status) == self._scenario.graphs
        if not self._scenario.is_new:
            assert count_books(place) == 1, "a graph lost its rows"
        shutil.rmtree(place)


def add_book(folder: Path) -> None:
    graph = omnigraph.open(folder / "graphs" / "library.omni")
    graph.load([{"type": "Book", "data": {"slug": "a", "title": "A"}}], "append")


def count_books(folder: Path) -> int:
    found = next(one for one in read_serving_snapshot(str(folder)).graphs if one.id == "library")
    return len(omnigraph.open(found.uri, read_only=True).nodes("Book"))


@pytest.fixture(params=SCENARIOS)
def sweep(request, workers, applied_cluster, tmp_path) -> ApplySweep:
    return ApplySweep(workers, applied_cluster, tmp_path, SCENARIOS[request.param])


def test_a_killed_apply_is_finished_by_the_next_one(sweep) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    sweep.cut(random.Random(seed).randrange(len(sweep.writes) + 1))


@pytest.mark.slow
def test_an_apply_killed_at_any_write_is_finished_by_the_next_one(sweep) -> None:
    print(f"{len(sweep.writes)} writes")
    side_by_side(sweep.cut, range(len(sweep.writes) + 1))


@pytest.mark.slow
def test_a_deletion_killed_between_files_is_finished_by_the_next_apply(
    workers, applied_cluster, tmp_path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    sweep = ApplySweep(workers, applied_cluster, tmp_path, SCENARIOS["delete"])
    for after in sorted(random.Random(seed).sample(range(120), 25)):
        sweep.cut(after, by_file=True)
