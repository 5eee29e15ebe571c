"""Random histories of a cluster, with kills, against a model of the declared state."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

import omnigraph
from cluster.cluster_checks import apply_until_converged, check_served, list_graphs, unlock
from crash.crash_scenario import CLUSTER_APPLY
from crash.harness import Workers
from omnigraph.cluster import approve_change, plan_cluster, refresh_cluster
from omnigraph.cluster.control_records import LEDGER

pytestmark = pytest.mark.crash

GRAPHS = ("a", "b", "c")
MAX_WRITES = 60


@dataclass
class Model:
    """The declared configuration, and the rows of each graph."""

    graphs: dict[str, int] = field(default_factory=dict)
    """The number of properties in the schema of each graph."""
    queries: set[str] = field(default_factory=set)
    """The graphs with a query."""
    bound: str | None = None
    """The graph that the policy is bound to."""
    rows: dict[str, set[str]] = field(default_factory=dict)

    def change(self, rng: random.Random) -> None:
        graph = rng.choice(GRAPHS)
        match rng.randrange(6):
            case 0 | 1:
                self.graphs.setdefault(graph, rng.randint(1, 2))
            case 2 if graph in self.graphs:
                self.graphs[graph] = rng.randint(1, 4)
            case 3 if graph in self.graphs:
                del self.graphs[graph]
            case 4:
                self.queries ^= {graph}
            case _:
                self.bound = rng.choice([None, *self.graphs])
        self.queries &= self.graphs.keys()
        self.bound = self.bound if self.bound in self.graphs else None

    def write(self, folder: Path) -> None:
        """Write the files of the folder."""
        config: dict[str, object] = {"version": 1, "graphs": {}}
        for graph, properties in self.graphs.items():
            names = "".join(f"  p{number}: I32?" for number in range(properties))
            (folder / f"{graph}.pg").write_text(f"node T {{ k: String @key{names} }}\n")
            (folder / f"{graph}.gq").write_text(
                f"query all() {{ match {{ $t: T }} return {{ $t.p{properties - 1} }} }}\n"
            )
            declared: dict[str, object] = {"schema": f"{graph}.pg"}
            if graph in self.queries:
                declared["queries"] = [f"{graph}.gq"]
            config["graphs"][graph] = declared
        if self.bound is not None:
            config["policies"] = {"p": {"file": "p.yaml", "applies_to": [self.bound]}}
        (folder / "p.yaml").write_text("version: 1\n")
        (folder / "cluster.yaml").write_text(yaml.safe_dump(config))


class ClusterHistory:
    """One folder, changed and applied again and again."""

    def __init__(self, folder: Path, workers: Workers, seed: int) -> None:
        self._folder, self._workers, self._rng = folder, workers, random.Random(seed)
        self._model = Model()

    def run(self, steps: int) -> None:
        for step in range(steps):
            for _ in range(self._rng.randint(1, 3)):
                self._model.change(self._rng)
            self._model.write(self._folder)
            self._approve()
            self._apply()
            self._check()
            self._add_rows(step)

    def _approve(self) -> None:
        """Approve gated changes, sometimes after an apply that omitted them."""
        for _ in range(self._rng.randint(0, 2)):
            self._kill()
        for required in plan_cluster(self._folder).approvals_required:
            approve_change(self._folder, required.resource, actor="maria")

    def _apply(self) -> None:
        """Apply, killed any number of times."""
        for _ in range(self._rng.randint(0, 3)):
            self._kill()
            if self._rng.random() < 0.3 and (self._folder / "__cluster/state.json").exists():
                refresh_cluster(self._folder)
            for required in plan_cluster(self._folder).approvals_required:
                # What was done before may have changed what an approval was given for.
                approve_change(self._folder, required.resource, actor="maria")

    def _kill(self) -> None:
        self._workers.run(self._folder, CLUSTER_APPLY, self._rng.randrange(MAX_WRITES))
        check_served(self._folder)
        unlock(self._folder)

    def _check(self) -> None:
        status = apply_until_converged(self._folder)
        assert set(list_graphs(status)) == set(self._model.graphs)
        queries = {a.split(".")[1] for a in status.resource_digests if a.startswith("query.")}
        assert queries == self._model.queries
        state = LEDGER.decode((self._folder / "__cluster/state.json").read_bytes(), "state.json")
        policy = state.resources.get("policy.p")
        bound = None if self._model.bound is None else (f"graph.{self._model.bound}",)
        assert (None if policy is None else policy.applies_to) == bound
        self._model.rows = {g: self._model.rows.get(g, set()) for g in self._model.graphs}
        for graph, properties in self._model.graphs.items():
            found = omnigraph.open(self._folder / f"graphs/{graph}.omni", read_only=True)
            assert {one["data"]["k"] for one in found.export()} == self._model.rows[graph]
            assert len(found.catalog.nodes["T"].properties) == properties + 1

    def _add_rows(self, step: int) -> None:
        for graph in self._model.graphs:
            key = f"row-{step}"
            found = omnigraph.open(self._folder / f"graphs/{graph}.omni")
            found.load([{"type": "T", "data": {"k": key}}], "append")
            self._model.rows[graph].add(key)


def run(folder: Path, workers: Workers, seed: int, steps: int) -> None:
    print(f"seed {seed}")
    place = folder / f"cluster_history-{seed}"
    place.mkdir()
    ClusterHistory(place, workers, seed).run(steps)
    shutil.rmtree(place)


def test_a_cluster_converges_to_its_declaration_after_any_kills(tmp_path, workers) -> None:
    run(tmp_path, workers, random.randrange(10**6), steps=3)


@pytest.mark.fuzz
def test_many_clusters_converge_to_their_declaration_after_any_kills(tmp_path, workers) -> None:
    for _ in range(40):
        run(tmp_path, workers, random.randrange(10**6), steps=12)
