"""The suites of the Spark pipeline, at sizes that only show that they work."""

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import pytest

from bench.child import load_entry
from bench.environments import interpreter, missing_package
from bench.inputs import Preparation, case_spec
from bench.outcome import Sample
from bench.prepared import Store
from bench.process import Request, run_sample
from bench.suite import Environment, MemoryTarget, Target, find_suites
from bench.suites.spark_crossover import SIZES
from bench.systems.process_tree import TreeWatch, watched
from bench.systems.spark_upserts import _copied

SMALL = {
    "spark_crossover": {"seed": 7, "sizes": dict.fromkeys(SIZES, 1_100)},
    "spark_load": {"seed": 7, "persons": 200},
    "spark_load_large": {"seed": 7, "rows": 1_100},
    "spark_read": {"rows": 1_000},
    "spark_start": {"rows": 20},
    "spark_upsert": {"rows": 1_000, "delta": 100},
}
WITHOUT_SPARK = [
    ("spark_crossover", "omnigraph local"),
    ("spark_load", "lance"),
    ("spark_load_large", "lance"),
    ("spark_start", "omnigraph local"),
]


@pytest.fixture
def suite(request, tmp_path):
    found = find_suites()[request.param]
    case = replace(found.cases[0], parameters=SMALL[found.name])
    return replace(found, cases=(case,), cached_by=())


def samples_of(suite, systems, tmp_path):
    """One sample of each system, in a process of its own, as the benchmarks take it."""
    (case,) = suite.cases
    measures = frozenset(measure.name for measure in suite.measures)
    with ExitStack() as held:
        folders = Preparation(suite, case, Store(tmp_path), held, print).of(systems)
        assert not folders.failures
        samples = {}
        for system in systems:
            spec = case_spec(suite, case, system)
            spec |= {"inputs": folders.inputs, "store": folders.stores.get(system.name)}
            python = interpreter(system.environment)
            samples[system.name] = run_sample(Request(system.entry, spec, measures, 300, python))
    return samples


def test_every_suite_of_the_pipeline_is_tried_here():
    assert SMALL.keys() == {name for name in find_suites() if name.startswith("spark_")}


def test_the_pipeline_promises_what_it_must():
    suites = find_suites()
    assert {("omnigraph jsonl", 3.0, 1.5), ("omnigraph parquet", 3.0, 1.5)} == {
        (target.system, target.at_most, target.aim) for target in suites["spark_load"].targets
    }
    assert {"spark parquet", "lance", "kuzu copy"} == set(suites["spark_load"].baselines)
    large = suites["spark_load_large"].targets
    assert [target.at_most for target in large if isinstance(target, Target)] == [69.0]
    assert {t.process: t.at_most for t in large if isinstance(t, MemoryTarget)} == {
        "driver": 3 << 30,
        "worker": 3 << 29,
    }
    assert suites["spark_upsert"].cases[0].parameters == {"rows": 10**7, "delta": 10**6}


@pytest.mark.parametrize(("suite", "name"), WITHOUT_SPARK, indirect=["suite"])
def test_a_system_without_spark_has_every_measure(suite, name, tmp_path):
    (sample,) = samples_of(suite, [suite.system(name)], tmp_path).values()
    assert isinstance(sample, Sample), sample
    assert sample.timings.keys() == {measure.name for measure in suite.measures}


@pytest.mark.slow
@pytest.mark.parametrize("suite", SMALL, indirect=True)
def test_all_systems_end_with_the_same_rows(suite, tmp_path):
    systems = [system for system in suite.systems if missing_package(system) is None]
    ours = [system for system in suite.systems if system.environment is Environment.PROJECT]
    assert all(system in systems for system in ours)
    samples = samples_of(suite, systems, tmp_path)
    for name, sample in samples.items():
        assert isinstance(sample, Sample), (name, sample, getattr(sample, "output", ""))
    assert len({sample.result_hash for sample in samples.values()}) == 1, samples
    promised = {t.system: t.process for t in suite.targets if isinstance(t, MemoryTarget)}
    for name, process in promised.items():
        assert samples[name].memory[process] > 0


def test_a_merge_writes_to_a_copy(tmp_path):
    prepared, root = tmp_path / "store", tmp_path / "root"
    for name in ("data/rows.lance", "_versions/1.manifest"):
        file = prepared / "graph" / name
        file.parent.mkdir(parents=True)
        file.write_text("as it was")
    root.mkdir()
    copy = _copied({"store": str(prepared), "root": str(root)}, "graph")
    (copy / "_versions" / "1.manifest").write_text("changed")
    (copy / "data" / "rows.lance").unlink()
    assert {file.read_text() for file in prepared.rglob("*.*") if file.is_file()} == {"as it was"}


def test_the_watch_sees_processor_time_and_memory_of_this_process():
    held, use = watched(lambda: len(b"x" * (1 << 26)))
    assert held == 1 << 26
    assert use.wall > 0
    assert use.memory["driver"] > 1 << 26


def test_the_watch_sees_a_process_started_concurrently():
    code = "x = b'x' * (1 << 27); print('held', flush=True); input()"
    watch = TreeWatch()
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        _, memory = watch.stop()
        process.communicate("\n")
    assert memory["worker"] > 1 << 27


def test_entries_of_the_suites_can_be_sent():
    for name in SMALL:
        suite = find_suites()[name]
        for system in suite.systems:
            assert callable(load_entry(system.entry))
            json.dumps(dict(system.parameters))
