"""The suites of branches and history, at sizes that only show that they work."""

import json

import pytest

from bench.child import load_entry
from bench.environments import interpreter, missing_package
from bench.process import Request, run_prepare, run_sample
from bench.suite import Environment, find_suites
from bench.systems.merge_rows import MAIN, WORK, base_item, changed_items

SMALL = {
    "merge": {"rows": 200, "work": 5, "main": 3},
    "merge_growth": {"rows": 200, "work": 5, "main": 3},
    "feed_replay": {"commits": 4},
    "live_branches": {"branches": 3, "repetitions": 2},
    "live_branches_long": {"branches": 3, "repetitions": 2},
}
FAST_FORWARD = {"rows": 200, "work": 5, "main": 0}


def sample_of(suite, system, folder, parameters):
    """A sample in this process, of a store that is made here too."""
    places = {name: folder / f"{system.name}-{name}" for name in ("root", "store", "inputs")}
    for place in places.values():
        place.mkdir()
    given = {**parameters, **system.parameters}
    if system.prepare is not None:
        load_entry(system.prepare)({"root": str(places["store"]), "parameters": given})
    if suite.prepare is not None:
        load_entry(suite.prepare)({"root": str(places["inputs"]), "parameters": given})
    spec = {name: str(place) for name, place in places.items()} | {"parameters": given}
    return load_entry(system.entry)(spec)


def of_this_project(suite):
    return [one for one in suite.systems if one.environment is Environment.PROJECT]


@pytest.mark.parametrize("name", SMALL)
def test_our_samples_have_every_measure_their_suite_declares_and_one_answer(name, tmp_path):
    suite = find_suites()[name]
    samples = [sample_of(suite, s, tmp_path, SMALL[name]) for s in of_this_project(suite)]
    for sample in samples:
        assert sample["timings"].keys() == {measure.name for measure in suite.measures}
        json.dumps(sample)
    assert len({sample["result_hash"] for sample in samples}) == 1


def test_both_branches_change_rows_of_their_own():
    changed = {branch: changed_items(SMALL["merge"], branch) for branch in (MAIN, WORK)}
    assert [len(items) for items in changed.values()] == [3, 5]
    assert not {key for key, *_ in changed[MAIN]} & {key for key, *_ in changed[WORK]}
    known = dict(base_item(number)[:2] for number in range(200))
    for items in changed.values():
        assert all(amount == -1 - known[key] for key, amount, _ in items)


def test_a_merge_has_the_changes_of_both_sides(tmp_path):
    suite = find_suites()["merge"]
    sample = sample_of(suite, suite.system("omnigraph"), tmp_path, SMALL["merge"])
    assert sample["preview"]["changed"] == 5 + 3
    assert sample["preview"]["diff"] == 5


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [SMALL["merge"], FAST_FORWARD], ids=["three-way", "fast"])
def test_doltlite_comes_to_the_same_rows(parameters, tmp_path):
    suite = find_suites()["merge"]
    peer = suite.system("doltlite")
    if missing_package(peer) is not None:
        pytest.skip("the peers are not installed")
    (store := tmp_path / "store").mkdir()
    measures = frozenset(measure.name for measure in suite.measures)
    python = interpreter(peer.environment)
    spec = {"parameters": parameters}
    assert run_prepare(Request(peer.prepare, spec, measures, 120, python), store) is None
    spec |= {"store": str(store)}
    theirs = run_sample(Request(peer.entry, spec, measures, 120, python))
    ours = sample_of(suite, suite.system("omnigraph"), tmp_path, parameters)
    assert theirs.result_hash == ours["result_hash"]


def test_the_suites_have_the_sizes_they_speak_of():
    merge = find_suites()["merge"]
    assert {case.parameters["rows"] for case in merge.cases} == {1_000_000}
    growth = find_suites()["merge_growth"].cases
    assert growth[-1].parameters["rows"] == 100 * growth[0].parameters["rows"]
    for name, most in (("live_branches", 1_000), ("live_branches_long", 10_000)):
        assert [one.parameters["branches"] for one in find_suites()[name].cases] == [10, most]
