import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.child import load_entry
from bench.suite import (
    CallsTarget,
    Case,
    GrowthTarget,
    Measure,
    MemoryTarget,
    Role,
    Suite,
    System,
    Target,
    find_suites,
)

PROJECT = Path(__file__).resolve().parents[2]


def declare(**changes):
    parts = {
        "name": "probe",
        "question": "Does it hold?",
        "systems": (System("a", Role.PEER, "m:f"), System("b", Role.OURS, "m:f")),
        "measures": (Measure("work", "nothing much"),),
        "baselines": ("a",),
    }
    return Suite(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"baselines": ("c",)}, "baseline 'c' is not one of a, b"),
        ({"baselines": ()}, "needs systems, measures, a baseline"),
        ({"systems": (System("a", Role.PEER, "m:f"),) * 2}, "system 'a' is declared twice"),
        ({"cases": (Case("x"), Case("x"))}, "case 'x' is declared twice"),
        ({"targets": (Target("c", "work", 1.0),)}, "target system 'c' is not one of"),
        ({"targets": (Target("a", "play", 1.0),)}, "target measure 'play' is not one of"),
        ({"targets": (Target("b", "work", 1.0, of="b"),)}, "target baseline 'b' is not one of a"),
        ({"targets": (GrowthTarget("b", "work", 1.5),)}, "promises growth and has no axis"),
        ({"targets": (CallsTarget("c", 12),)}, "target system 'c' is not one of"),
        ({"targets": (MemoryTarget("c", "driver", 9),)}, "target system 'c' is not one of"),
        ({"series": (("work", "play"),)}, "measure of a series 'play' is not one of work"),
    ],
)
def test_a_suite_that_contradicts_itself_is_refused(changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        declare(**changes)


def test_quick_cases_stand_in_for_the_others_only_on_request():
    suite = declare(cases=(Case("big"),), quick_cases=(Case("small"),))
    assert [case.name for case in suite.chosen_cases(quick=False)] == ["big"]
    assert [case.name for case in suite.chosen_cases(quick=True)] == ["small"]
    assert [case.name for case in declare().chosen_cases(quick=True)] == ["default"]


def test_every_suite_is_found_and_every_system_of_it_exists():
    suites = find_suites()
    assert {"compile", "generators", "startup"} <= suites.keys()
    for suite in suites.values():
        for system in suite.systems:
            assert callable(load_entry(system.entry))
        if suite.prepare is not None:
            assert callable(load_entry(suite.prepare))


def test_every_suite_of_the_acceptance_has_its_targets():
    suites = find_suites()
    promised = {
        name: {(type(target), getattr(target, "measure", None)) for target in suite.targets}
        for name, suite in suites.items()
    }
    assert {(Target, "commit"), (CallsTarget, None)} <= promised["one_commit"]
    for name in ("growth_history", "growth_types"):
        assert {(Target, "commit"), (GrowthTarget, "commit")} <= promised[name]
    assert (GrowthTarget, "main commit") in promised["growth_branches"]
    assert (GrowthTarget, "all commits") in promised["writers"]
    assert (Target, "load") in promised["load"]
    assert (Target, "wall") in promised["startup"]
    assert (Target, "wall") in promised["startup_query"]
    assert (Target, "q1–q7") in promised["social"]
    assert {(Target, "1 hop"), (Target, "2 hops"), (Target, "point")} <= promised["neighbourhoods"]
    assert (Target, "hybrid") in promised["retrieval"]


def test_the_list_shows_every_question(capsys):
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(suite.question in shown for suite in find_suites().values())


def test_an_unknown_suite_is_a_mistake_of_the_caller(capsys):
    assert main(["no-such-suite"]) == 2
    assert "no suite named no-such-suite; there are compile" in capsys.readouterr().err


def test_fewer_than_five_samples_are_a_mistake_of_the_caller(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--samples", "3"])
    assert stopped.value.code == 2
    assert "must be at least 5" in capsys.readouterr().err


def test_the_parent_process_stays_light():
    # What the parent has loaded can weigh on the memory and the caches of every child.
    code = "import sys, bench.__main__ as b; b.find_suites(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "pyarrow", "polars", "lance", "omnigraph"} & set(loaded)


def test_a_suite_runs_from_the_command_line_to_its_records(tmp_path, capsys):
    assert main(["sound", "--out", str(tmp_path)], package="suites_under_test") == 0
    shown = capsys.readouterr().out
    assert "- **other**, work: **1×** `base` (1 – 1; noise 1×, no difference shown)" in shown
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md"]
    assert next(tmp_path.glob("*.md")).read_text() in shown


def test_figures_of_a_quick_run_are_never_recorded(tmp_path, capsys):
    kept = Path(main.__globals__["__file__"]).parent / "RESULTS.md"
    before = kept.read_bytes()
    assert main(["sound", "--quick", "--keep"], package="suites_under_test") == 2
    assert "not worth keeping" in capsys.readouterr().err
    assert main(["sound", "--quick", "--out", str(tmp_path)], package="suites_under_test") == 0
    assert main(["sound", "--out", str(tmp_path)], package="suites_under_test") == 0
    assert kept.read_bytes() == before


def test_a_disagreement_is_an_exit_status_and_a_record(tmp_path, capsys):
    assert main(["unsound", "--out", str(tmp_path)], package="suites_under_test") == 1
    assert "**base and wrong gave different answers" in capsys.readouterr().out
    kept = json.loads(next(tmp_path.glob("unsound-*.json")).read_text())
    assert kept["is_sound"] is False
    assert kept["cases"][0]["disagreement"]["second_hash"] == "42"


def test_a_module_that_declares_no_suite_is_refused():
    with pytest.raises(TypeError, match="nothing must declare SUITE"):
        find_suites("no_suites_under_test")
