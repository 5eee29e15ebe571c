import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from bench.inputs import Preparation
from bench.outcome import Failure
from bench.prepared import Store, folder_name
from bench.suite import Case, Measure, Role, Suite, System

ENTRY = "systems_under_test:prepare"


def suite(log, *systems, **options):
    return Suite(
        name="probe",
        question="Is it kept?",
        systems=systems or (System("base", Role.OURS, "systems_under_test:reads_inputs"),),
        measures=(Measure("work", "nothing much"),),
        baselines=("base",),
        prepare=ENTRY,
        cases=(Case("small", {"size": 7, "log": str(log), "repetitions": 2}),),
        **options,
    )


def prepare(declared, store):
    with ExitStack() as held:
        preparation = Preparation(declared, declared.cases[0], store, held, lambda message: None)
        folders = preparation.of(declared.systems)
        names = (
            sorted(path.name for path in store.folder.glob("*")) if store.folder.exists() else []
        )
        return folders, names


def times_prepared(log):
    return len(log.read_text().splitlines())


def test_kept_data_is_prepared_once_for_all_runs(tmp_path):
    log, store = tmp_path / "log", Store(tmp_path / "kept")
    declared = suite(log, cached_by=("size",))
    first, _ = prepare(declared, store)
    again, names = prepare(declared, store)
    assert first.inputs == again.inputs
    assert times_prepared(log) == len(names) == 1


def test_fresh_prepares_retained_data_again_in_the_same_folder(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "kept"
    declared = suite(log, cached_by=("size",))
    first, _ = prepare(declared, Store(folder))
    again, names = prepare(declared, Store(folder, fresh=True))
    assert first.inputs == again.inputs
    assert (times_prepared(log), len(names)) == (2, 1)


def test_fresh_data_is_prepared_once_for_all_cases_of_a_run(tmp_path):
    log, store = tmp_path / "log", Store(tmp_path / "kept", fresh=True)
    declared = suite(log, cached_by=("size",))
    prepare(declared, store)
    prepare(declared, store)
    assert times_prepared(log) == 1


def test_data_that_is_not_retained_is_removed_after_the_case(tmp_path):
    log, store = tmp_path / "log", Store(tmp_path / "kept")
    prepare(suite(log), store)
    _, names = prepare(suite(log), store)
    assert (times_prepared(log), names) == (2, [])


def test_the_inputs_of_the_content_decide_its_folder():
    same = folder_name(ENTRY, {"seed": 7, "size": 100})
    assert same == folder_name(ENTRY, {"size": 100, "seed": 7})
    assert same != folder_name(ENTRY, {"seed": 8, "size": 100})
    assert same != folder_name("systems_under_test:raises", {"seed": 7, "size": 100})
    assert same.startswith("systems_under_test-prepare-")


def test_a_preparation_that_fails_leaves_nothing_to_be_found(tmp_path):
    store = Store(tmp_path / "kept")
    declared = suite(tmp_path / "log", cached_by=("size",))
    folders, names = prepare(replace(declared, prepare="systems_under_test:raises"), store)
    assert isinstance(folders.failures["prepare"], Failure)
    assert names == []


def test_each_system_fills_its_store_from_the_data(tmp_path):
    systems = (
        System("base", Role.OURS, "systems_under_test:repeats", prepare=f"{ENTRY}_store"),
        System("none", Role.OURS, "systems_under_test:repeats"),
    )
    log, store = tmp_path / "log", Store(tmp_path / "kept")
    folders, names = prepare(suite(log, *systems, cached_by=("size",)), store)
    assert folders.stores.keys() == {"base"}
    assert len(names) == 2
    filled = Path(folders.stores["base"], "store.json")
    assert json.loads(filled.read_text()) == {"size": "7", "system": "base"}


def test_a_system_whose_store_cannot_be_filled_is_named(tmp_path):
    systems = (
        System("base", Role.OURS, "systems_under_test:repeats"),
        System("sad", Role.OURS, "systems_under_test:repeats", prepare="systems_under_test:raises"),
    )
    folders, _ = prepare(suite(tmp_path / "log", *systems), Store(tmp_path / "kept"))
    assert "no table in" in folders.failures["sad"].message
    assert folders.stores == {}
    assert folders.inputs is not None
