import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bench.leftovers import remove_leftovers
from bench.machine import machine_facts
from bench.outcome import FailureKind
from bench.process import Request, run_sample
from bench.report import markdown
from bench.run import run_suite
from bench.schedule import arms_of, round_order
from bench.suite import Case, Environment, Measure, Role, Suite, System
from bench.summary import headlines


def system(name, entry, role=Role.OURS, **parameters):
    return System(name, role, f"systems_under_test:{entry}", parameters)


def suite(*systems, **options):
    return Suite(
        name="probe",
        question="Does it hold?",
        systems=systems,
        measures=(Measure("work", "nothing much", "rows"),),
        baselines=(systems[0].name,),
        **options,
    )


def request(entry, timeout_s=60.0, **parameters):
    spec = {"parameters": parameters}
    return Request(f"systems_under_test:{entry}", spec, frozenset({"work"}), timeout_s)


def run(declared):
    return run_suite(declared, announce=lambda message: None)


def run_one_case(declared):
    (case,) = run(declared).cases
    return case


@pytest.fixture(scope="module")
def steady_run(tmp_path_factory):
    log = str(tmp_path_factory.mktemp("steady") / "log.jsonl")
    declared = suite(
        system("base", "steady", Role.BARE, log=log, seconds=0.01),
        system("slow", "steady", log=log, seconds=0.03),
    )
    case = run_one_case(declared)
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    return declared, case, lines


def test_every_sample_has_its_own_process(steady_run):
    _, _, lines = steady_run
    assert len({line["pid"] for line in lines}) == len(lines)
    assert os.getpid() not in {line["pid"] for line in lines}


def test_every_sample_starts_from_an_empty_folder_that_is_removed_in_the_end(steady_run):
    _, _, lines = steady_run
    assert all(line["found"] == [] for line in lines)
    assert len({line["root"] for line in lines}) == len(lines)
    remove_leftovers()
    assert not any(Path(line["root"]).exists() for line in lines)


def test_answers_are_checked_in_a_round_of_their_own_and_rounds_are_interleaved(steady_run):
    declared, _, lines = steady_run
    arms = arms_of(declared.systems, "base")
    rounds = [0, *range(5)]
    wanted = [arm.system.name for index in rounds for arm in round_order(arms, index)]
    assert [line["system"] for line in lines] == wanted


def test_five_timed_samples_of_each_arm_are_recorded(steady_run):
    _, case, _ = steady_run
    assert {name: len(samples) for name, samples in case.samples.items()} == {
        "base": 5,
        "slow": 5,
        "base (again)": 5,
    }
    assert case.is_sound


def test_calls_and_memory_are_recorded_beside_time(steady_run):
    _, case, _ = steady_run
    sample = case.samples["slow"][0]
    assert sample.calls == {"reads": 3}
    assert sample.peak_memory_bytes > 1_000_000


def test_notes_lose_their_paths(steady_run):
    _, case, _ = steady_run
    assert case.samples["slow"][0].notes == "kept under <path>"


def test_fewer_than_five_samples_are_refused():
    with pytest.raises(ValueError, match="at least 5"):
        run_suite(suite(system("base", "steady")), samples=4, announce=print)


def test_different_answers_end_the_suite_and_show_both(tmp_path):
    log = str(tmp_path / "log.jsonl")
    declared = suite(
        system("base", "steady", log=log, answer="41"),
        system("wrong", "steady", log=log, answer="42"),
        cases=(Case("first"), Case("second")),
    )
    result = run(declared)
    assert [case.case.name for case in result.cases] == ["first"]
    assert not result.is_sound
    found = result.cases[0].disagreement
    assert (found.first, found.first_hash, found.first_preview) == ("base", "41", "41")
    assert (found.second, found.second_hash, found.second_preview) == ("wrong", "42", "42")
    assert result.cases[0].samples == {}
    assert len(Path(log).read_text().splitlines()) == 3, "no timed round was started"


def test_a_baseline_that_changes_its_answer_ends_the_suite(tmp_path):
    declared = suite(system("fickle", "changes_its_mind", log=str(tmp_path / "log.jsonl")))
    case = run_one_case(declared)
    assert (case.disagreement.first, case.disagreement.first_hash) == ("fickle", "0")
    assert case.disagreement.second_hash == "1"


def test_a_crash_is_reported_and_the_others_are_still_measured():
    case = run_one_case(suite(system("base", "repeats"), system("frail", "segfault")))
    failure = case.failures["frail"]
    assert failure.kind is FailureKind.CRASHED
    assert failure.message.startswith("killed by SIGSEGV")
    assert "frail" not in case.samples
    assert len(case.samples["base"]) == 5
    assert not case.is_sound


def test_an_error_is_reported_with_its_last_line_and_without_paths():
    case = run_one_case(suite(system("base", "raises")))
    failure = case.failures["base"]
    assert failure.kind is FailureKind.CRASHED
    assert failure.message == "exit status 1: LookupError: no table in <path> today"
    assert "Traceback" in failure.output


def test_a_failing_baseline_ends_the_case():
    case = run_one_case(suite(system("base", "raises"), system("other", "repeats")))
    assert case.samples == {}
    assert not case.is_sound


def test_a_hanging_process_is_killed_with_all_it_started(tmp_path):
    pid_file = tmp_path / "pid"
    for timeout_s in (3.0, 30.0, 300.0):  # until it had the time to start the other process
        failure = run_sample(request("hangs", timeout_s=timeout_s, pid_file=str(pid_file)))
        assert failure.kind is FailureKind.TIMED_OUT
        assert failure.message == f"no answer within {timeout_s:g} s"
        if pid_file.exists():
            break
    assert is_gone(int(pid_file.read_text()))


def is_gone(pid):
    """Ended, or a zombie that its new parent has not reaped yet."""
    status = Path(f"/proc/{pid}/status")
    for _ in range(15_000):
        try:
            if "State:\tZ" in status.read_text():
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_a_system_that_fails_late_loses_all_its_samples(tmp_path):
    log = str(tmp_path / "log.jsonl")
    late = system("late", "fails_in_the_third_round", log=log)
    case = run_one_case(suite(system("base", "repeats"), late))
    assert case.failures["late"].message == "exit status 1: RuntimeError: out of luck"
    assert "late" not in case.samples
    assert len(Path(log).read_text().splitlines()) == 4, "it was not asked again"


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        ({}, "timings must be an object, not NoneType"),
        ({"timings": {}}, "no timings"),
        ({"timings": {"work": []}, "result_hash": "x"}, "timing work is empty or zero"),
        ({"timings": {"work": -1}, "result_hash": "x"}, "finite and not negative"),
        ({"timings": {"work": "fast"}, "result_hash": "x"}, "timing work must be a number"),
        ({"timings": {"play": 1}, "result_hash": "x"}, "undeclared measures: play"),
        ({"timings": {"work": 1}}, "result_hash must be"),
        ({"timings": {"work": 1}, "result_hash": "x", "calls": [1]}, "calls must be an object"),
    ],
)
def test_a_malformed_result_is_reported(result, complaint):
    case = run_one_case(suite(system("base", "reports", result=result)))
    assert case.failures["base"].kind is FailureKind.BAD_RESULT
    assert complaint in case.failures["base"].message


def test_a_process_that_ends_without_a_result_is_reported():
    case = run_one_case(suite(system("base", "ends_without_a_word")))
    assert case.failures["base"].message == "the process ended without a result"


def test_a_peer_that_is_not_installed_is_named_and_no_failure():
    absent = replace(system("absent", "repeats", Role.PEER), requires=("no-such-package",))
    case = run_one_case(suite(system("base", "repeats"), absent))
    assert case.failures["absent"].kind is FailureKind.NOT_INSTALLED
    assert case.is_sound


def test_a_run_without_its_baseline_is_not_sound():
    absent = replace(system("absent", "repeats"), requires=("no-such-package",))
    case = run_one_case(suite(absent, system("other", "repeats")))
    assert case.samples == {}
    assert not case.is_sound


def test_without_its_peers_a_suite_still_runs_and_has_no_ratios(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_PEERS_VENV", str(tmp_path / "absent"))
    peer = System(
        "peer",
        Role.PEER,
        "systems_under_test:raises",
        requires=("no-such-package",),
        environment=Environment.PEERS,
        prepare="systems_under_test:raises",
    )
    result = run(suite(peer, system("ours", "repeats")))
    (case,) = result.cases
    assert result.is_sound
    assert result.reference == "ours"
    assert case.samples.keys() == {"ours", "ours (again)"}
    assert headlines(result) == ()
    page = markdown(result, machine_facts())
    assert "- peer: not installed: needs the package no-such-package" in page


def test_of_two_baselines_the_one_that_is_installed_is_the_reference(tmp_path, monkeypatch):
    monkeypatch.setenv("OMNIGRAPH_PEERS_VENV", str(tmp_path / "absent"))
    absent = replace(
        system("absent", "repeats", Role.PEER),
        requires=("no-such-package",),
        environment=Environment.PEERS,
    )
    declared = replace(
        suite(absent, system("second", "repeats"), system("ours", "repeats")),
        baselines=("absent", "second"),
    )
    result = run(declared)
    assert result.reference == "second"
    assert {(found.system, found.baseline) for found in headlines(result)} == {("ours", "second")}


def test_a_store_is_filled_once_and_read_by_every_sample_of_its_system(tmp_path):
    log = tmp_path / "log.jsonl"
    reader = replace(system("base", "reads_store"), prepare="systems_under_test:prepare_store")
    declared = suite(
        reader,
        prepare="systems_under_test:prepare",
        cases=(Case("small", {"size": 7, "log": str(log)}),),
    )
    case = run_one_case(declared)
    assert {sample.result_hash for sample in case.samples["base"]} == {"7"}


def test_inputs_are_prepared_once_and_read_by_every_sample(tmp_path):
    log = tmp_path / "log.jsonl"
    declared = suite(
        system("base", "reads_inputs"),
        prepare="systems_under_test:prepare",
        cases=(Case("small", {"size": 7, "log": str(log)}),),
    )
    case = run_one_case(declared)
    assert {sample.result_hash for sample in case.samples["base"]} == {"7"}
    assert len(log.read_text().splitlines()) == 1


def test_inputs_that_cannot_be_prepared_are_reported():
    declared = suite(system("base", "repeats"), prepare="systems_under_test:raises")
    case = run_one_case(declared)
    assert case.failures["prepare"].kind is FailureKind.CRASHED
    assert case.samples == {}


def test_peak_memory_is_the_childs_and_not_its_parents():
    ballast = bytearray(300_000_000)
    small, large = (run_sample(request(entry)).peak_memory_bytes for entry in ("repeats", "large"))
    assert small < 100_000_000 < 150_000_000 < large < len(ballast)
