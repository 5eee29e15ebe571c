from pathlib import Path
from typing import Any

import pytest

from bench.child import load_entry
from bench.suite import find_suites
from bench.systems.bare_tables import BareTables, ChangeLog
from bench.systems.changes import KINDS, base_rows, hash_of
from bench.systems.small_graph import SmallGraph
from bench.systems.storage_calls import calls_of_one

SMALL = {
    "one_commit": {"kind": "insert", "rows": 20, "warm_up": 1, "repetitions": 2},
    "growth_history": {"commits": 3, "warm_up": 1, "repetitions": 2},
    "growth_branches": {"branches": 2, "repetitions": 2},
    "growth_types": {"types": 3, "warm_up": 1, "repetitions": 2},
    "load": {"seed": 7, "persons": 200},
    "maintenance_optimize": {"commits": 6},
    "maintenance_commits": {"commits": 4, "warm_up": 1, "repetitions": 2},
    "maintenance_bytes": {"rows": 30, "commits": 4},
    "long_history": {"commits": 5, "rows": 5},
    "schema_metadata": {"rows": 50},
    "schema_backfill": {"rows": 50},
    "writers": {"writers": 2, "commits": 4},
}


# Every writer is a new process that loads the native library.
SLOW = {"writers": pytest.mark.slow}


@pytest.fixture(params=[pytest.param(name, marks=SLOW.get(name, ())) for name in SMALL])
def suite(request):
    return find_suites()[request.param]


def samples_of(suite, folder):
    """One sample of every system, in this process, at a size that only shows that it works."""
    parameters = SMALL[suite.name]
    inputs = folder / "inputs"
    if suite.prepare is not None:
        inputs.mkdir()
        load_entry(suite.prepare)({"root": str(inputs), "parameters": parameters})
    samples = {}
    for system in suite.systems:
        root = folder / system.name.replace(" ", "-")
        root.mkdir()
        spec = {"root": str(root), "inputs": str(inputs), "parameters": parameters}
        samples[system.name] = load_entry(system.entry)(spec)
    return samples


def files_of(folder):
    return {file: file.stat().st_mtime_ns for file in Path(folder).rglob("*") if file.is_file()}


def test_all_systems_of_a_storage_suite_end_with_the_same_rows(suite, tmp_path):
    samples = samples_of(suite, tmp_path)
    assert len({sample["result_hash"] for sample in samples.values()}) == 1, samples
    measures = {measure.name for measure in suite.measures}
    for sample in samples.values():
        assert sample["timings"].keys() == measures


def test_samples_leave_the_prepared_folder_as_it_was(tmp_path):
    suite = find_suites()["growth_branches"]
    inputs, root = tmp_path / "inputs", tmp_path / "root"
    inputs.mkdir()
    root.mkdir()
    parameters = SMALL[suite.name]
    load_entry(suite.prepare)({"root": str(inputs), "parameters": parameters})
    before = files_of(inputs)
    for system in suite.systems:
        spec = {"root": str(root), "inputs": str(inputs), "parameters": parameters}
        load_entry(system.entry)(spec)
    assert files_of(inputs) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_means_the_same_to_a_graph_to_bare_tables_and_to_a_log(kind, tmp_path):
    rows = base_rows(20)
    targets: list[Any] = [
        SmallGraph.create(tmp_path / "graph", rows),
        BareTables(tmp_path / "tables", rows),
        ChangeLog.create(tmp_path / "log.lance", rows),
    ]
    before = {hash_of(target.rows()) for target in targets}
    for target in targets:
        for step in range(4):
            target.apply(KINDS[kind](step))
    after = {hash_of(target.rows()) for target in targets}
    assert (len(before), len(after)) == (1, 1)
    assert before != after


def test_the_calls_of_a_commit_are_counted_on_both_sides(tmp_path):
    graph = SmallGraph.create(tmp_path / "graph", base_rows(20))
    log = ChangeLog.create(tmp_path / "log.lance", base_rows(20))
    ours = calls_of_one(graph, tmp_path / "graph", KINDS["insert"], 0)
    bare = calls_of_one(log, tmp_path / "log.lance", KINDS["insert"], 0)
    # The intent of a write is put before its effects and deleted after them.
    assert ours["control put"] == ours["control delete"] == 1
    assert ours["files written"] > bare["files written"] > 0
    assert not any(name.startswith("control") for name in bare)


def test_the_commit_suite_measures_every_kind_of_change():
    suite = find_suites()["one_commit"]
    assert [case.parameters["kind"] for case in suite.cases] == list(KINDS)
    for case in suite.cases:
        used = case.parameters["warm_up"] + case.parameters["repetitions"] + 6
        assert used <= case.parameters["rows"], "every step changes a row of its own"
        assert case.parameters["repetitions"] >= 50
