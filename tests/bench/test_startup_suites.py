"""The suites that start programs, at sizes that only show that they work."""

from pathlib import Path

import pytest

from bench.child import load_entry
from bench.suite import find_suites
from bench.systems.command import measured

SMALL = {"seed": 7, "persons": 100, "repetitions": 1}


@pytest.fixture
def samples(tmp_path: Path):
    """One sample of each system of the first query."""
    suite, inputs = find_suites()["startup_query"], tmp_path / "inputs"
    inputs.mkdir()
    load_entry(suite.prepare)({"root": str(inputs), "parameters": SMALL})
    found = {}
    for system in suite.systems:
        root = tmp_path / system.name
        root.mkdir()
        spec = {"root": str(root), "inputs": str(inputs), "parameters": SMALL}
        found[system.name] = load_entry(system.entry)(spec)
    return found


def test_the_command_and_the_bare_program_find_the_same_rows(samples):
    assert len({sample["result_hash"] for sample in samples.values()}) == 1, samples
    for sample in samples.values():
        assert sample["timings"].keys() == {"wall"}
        assert sample["preview"], "a person of the network follows another"


def test_a_program_that_fails_has_no_time(tmp_path: Path):
    spec = {"root": str(tmp_path), "parameters": SMALL}
    with pytest.raises(RuntimeError, match="exit status 3: no such thing"):
        measured(spec, ["sh", "-c", "echo no such thing >&2; exit 3"], lambda _: [])
