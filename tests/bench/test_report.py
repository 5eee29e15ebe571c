import json
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.machine import machine_facts
from bench.outcome import Failure, FailureKind, Sample
from bench.record import keep, record, write_report
from bench.report import markdown, show_count, show_ratio, show_seconds
from bench.run import CaseRun, Disagreement, SuiteRun
from bench.schedule import arms_of
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
)
from bench.summary import crossovers, growth, headlines, verdicts

SUITE = Suite(
    name="reads",
    question="How fast is a read?",
    systems=(
        System("raw", Role.BARE, "module:raw"),
        System("ours", Role.OURS, "module:ours"),
        System("peer", Role.PEER, "module:peer"),
    ),
    measures=(Measure("point", "one row", "rows"), Measure("scan", "all rows")),
    baselines=("raw", "peer"),
    cases=(Case("small", {"rows": 10}), Case("large", {"rows": 1000})),
    targets=(Target("ours", "point", 2.5, of="raw"), Target("ours", "scan", 0.5)),
    axis="rows",
)
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def sample(point, scan):
    return Sample(
        timings={"point": (point,), "scan": (scan,)},
        result_hash="same",
        peak_memory_bytes=50 * 2**20,
        calls={"get": 4, "list": 1},
        work={"point": 1},
        notes={"kept": True},
    )


def case_run(case, scale):
    arms = arms_of(SUITE.systems, "raw")
    samples = {
        "raw": tuple(sample(0.001 * scale * f, 1.0) for f in (1, 1, 1, 1, 1)),
        "ours": tuple(sample(0.002 * scale * f, 1.02) for f in (1, 0.9, 1, 1.2, 1)),
        "peer": tuple(sample(0.004 * scale * f, 4.0) for f in (1, 1, 1, 1, 1)),
        "raw (again)": tuple(sample(0.001 * scale * f, 1.05) for f in (1.1, 1.1, 1, 0.8, 1)),
    }
    return CaseRun(case, arms, samples)


def suite_run(*cases, quick=False):
    return SuiteRun(SUITE, cases, 5, quick, STARTED, STARTED)


SOUND = suite_run(*(case_run(case, scale) for case, scale in zip(SUITE.cases, (1, 3), strict=True)))


def tables(text):
    """The tables of a page, each a list of rows of cells."""
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
        for block in blocks
    ]


def test_every_headline_is_a_ratio_to_a_named_baseline():
    found = [(h.case, h.measure, h.system, h.baseline) for h in headlines(SOUND)]
    assert found[:4] == [
        ("small", "point", "ours", "raw"),
        ("small", "point", "ours", "peer"),
        ("small", "scan", "ours", "raw"),
        ("small", "scan", "ours", "peer"),
    ]
    assert len(found) == 8


def test_the_noise_floor_comes_from_the_baseline_against_itself():
    point, _, scan, _ = headlines(SOUND)[:4]
    assert round(point.floor.factor, 3) == 1.21
    assert not point.is_within_noise
    assert round(scan.floor.factor, 4) == 1.1025
    assert scan.is_within_noise


def test_a_page_opens_with_the_ratios():
    page = markdown(SOUND, machine_facts())
    assert page.startswith("## reads: How fast is a read?\n")
    assert "- **ours**, point at small: **2×** `raw` (1.8 – 2.4; noise 1.21×)" in page
    assert "**1.02×** `raw` (1.02 – 1.02; noise 1.1×, no difference shown)" in page


def test_the_table_has_a_ratio_column_per_baseline_and_a_row_per_arm():
    first, *_ = tables(markdown(SOUND, machine_facts()))
    header, rule, *rows = first
    assert header[:6] == ["measure", "system", "÷ raw", "÷ peer", "median", "range"]
    assert header[6:] == ["p95", "per second", "peak memory", "storage calls"]
    assert rule == ["---", "---", *["---:"] * 8]
    assert all(len(row) == len(header) for row in rows)
    assert [row[:2] for row in rows[:4]] == [
        ["point", "raw (bare)"],
        ["point", "ours (ours)"],
        ["point", "peer (peer)"],
        ["point", "raw (again) (noise)"],
    ]
    assert rows[1][2:] == [
        "2× (1.8 – 2.4)",
        "0.5× (0.45 – 0.6)",
        "2 ms",
        "1.8 ms – 2.4 ms",
        "–",
        "500 rows",
        "50 MiB",
        "get 4, list 1",
    ]


def test_growth_compares_the_last_case_with_the_first():
    found = {(item.system, item.measure): round(item.ratio, 3) for item in growth(SOUND)}
    assert found[("ours", "point")] == 3.0
    assert found[("ours", "scan")] == 1.0
    assert "| point | ours | 3× |" in markdown(SOUND, machine_facts())


def test_targets_are_checked_in_every_case():
    assert [(v.case, v.target.measure, v.is_met) for v in verdicts(SOUND)] == [
        ("small", "point", True),
        ("small", "scan", False),
        ("large", "point", True),
        ("large", "scan", False),
    ]
    page = markdown(SOUND, machine_facts())
    assert "- target ours, point ≤ 2.5× raw at small: met with 2× raw" in page
    assert "- target ours, scan ≤ 500 ms at large: missed with 1.02 s" in page


def test_different_answers_hide_every_time():
    arms = arms_of(SUITE.systems, "raw")
    wrong = Disagreement("raw", "ours", "hash-a", "hash-b", [1], [2])
    page = markdown(suite_run(CaseRun(SUITE.cases[0], arms, disagreement=wrong)), machine_facts())
    assert "**raw and ours gave different answers: no time is reported.**" in page
    assert "- raw: hash `hash-a`: `[1]`" in page
    assert "- ours: hash `hash-b`: `[2]`" in page
    assert tables(page) == []


def test_a_failure_is_named_on_the_page_and_leaves_the_others():
    whole = case_run(SUITE.cases[0], 1)
    samples = {label: taken for label, taken in whole.samples.items() if label != "ours"}
    failure = Failure(FailureKind.TIMED_OUT, "no answer within 9 s", "console only")
    page = markdown(
        suite_run(CaseRun(whole.case, whole.arms, samples, {"ours": failure})), machine_facts()
    )
    assert "**This run failed; the reason is below.**" in page
    assert "- ours: timed out: no answer within 9 s" in page
    assert "console only" not in page
    assert "target ours, point ≤ 2.5× raw at small: not measured" in page
    assert [row[1] for row in tables(page)[0][2:5]] == [
        "raw (bare)",
        "peer (peer)",
        "raw (again) (noise)",
    ]


def promising(*targets):
    return replace(SOUND, suite=replace(SUITE, targets=targets))


def test_growth_is_checked_once_and_calls_in_every_case():
    run = promising(GrowthTarget("ours", "point", 2.5, aim=1.2), CallsTarget("ours", 12))
    page = markdown(run, machine_facts())
    assert "- target ours, point ≤ 2.5× (aim 1.2×) at large ÷ small: missed with 3×" in page
    assert page.count("- target ours, storage calls ≤ 12 at") == 2
    assert "- target ours, storage calls ≤ 12 at large: met with 5" in page


def with_memory(case, worker):
    held = {"driver": 600 << 20, "worker": worker}
    ours = [replace(one, memory=held) for one in case.samples["ours"]]
    ours[2] = replace(ours[2], memory={**held, "worker": worker + (1 << 29)})
    return replace(case, samples={**case.samples, "ours": tuple(ours)})


def test_memory_is_checked_by_the_largest_sample():
    promised = (MemoryTarget("ours", "driver", 1 << 30), MemoryTarget("ours", "worker", 1 << 30))
    run = promising(*promised, MemoryTarget("raw", "driver", 1 << 30))
    run = replace(run, cases=(with_memory(run.cases[0], worker=3 << 28),))
    page = markdown(run, machine_facts())
    assert "target ours, memory of a driver ≤ 1 GiB at small: met with 600 MiB" in page
    assert "target ours, memory of a worker ≤ 1 GiB at small: missed with 1.25 GiB" in page
    assert "target raw, memory of a driver ≤ 1 GiB at small: not measured" in page
    first, *_ = tables(page)
    assert [row[8] for row in first[2:4]] == ["50 MiB", "driver 600 MiB, worker 1.25 GiB"]


SIZES = ("1 k", "10 k", "100 k", "1 M")


def crossing(*ratios):
    """A run in which ours needs a multiple of the time of the baseline, size by size."""

    def taken(scales):
        timings = {name: (scale,) for name, scale in zip(SIZES, scales, strict=True)}
        return tuple(replace(sample(1, 1), timings=timings, work={}) for _ in range(5))

    suite = replace(
        SUITE,
        systems=SUITE.systems[:2],
        measures=tuple(Measure(name, "so many rows") for name in SIZES),
        baselines=("raw",),
        cases=SUITE.cases[:1],
        targets=(),
        axis=None,
        series=(SIZES,),
    )
    samples = {"raw": taken([1] * 4), "ours": taken(ratios), "raw (again)": taken([1] * 4)}
    case = CaseRun(suite.cases[0], arms_of(suite.systems, "raw"), samples)
    return SuiteRun(suite, (case,), 5, False, STARTED, STARTED)


@pytest.mark.parametrize(
    ("ratios", "found"),
    [
        ((2, 1, 0.4, 0.2), "100 k"),
        ((0.4, 1, 0.4, 0.2), "100 k"),
        ((0.4, 0.3, 0.3, 0.3), "1 k"),
        ((2, 0.9, 0.9, 1), None),
        ((4, 3, 2, 1), None),
    ],
)
def test_the_crossover_is_where_a_system_becomes_faster_for_good(ratios, found):
    assert [one.measure for one in crossovers(crossing(*ratios))] == [found]


def test_a_crossover_is_recorded_with_the_seconds_it_came_from(tmp_path):
    keep(crossing(4, 2, 0.5, 0.25), machine_facts(), tmp_path / "RESULTS.md")
    text = (tmp_path / "RESULTS.md").read_text()
    assert "- **ours** beats `raw`, of 1 k to 1 M: **from 100 k on**" in text
    (seconds,) = tables(text)
    assert seconds[0] == ["case", "measure", "raw", "ours"]
    assert seconds[2] == ["small", "1 k", "1 s", "4 s"]
    assert seconds[4] == ["small", "100 k", "1 s", "500 ms"]
    never = markdown(crossing(4, 2, 2, 2), machine_facts())
    assert "- **ours** beats `raw`, of 1 k to 1 M: **in none of them**" in never


def test_a_suite_without_series_has_no_crossover():
    assert crossovers(SOUND) == ()
    assert "beats" not in markdown(SOUND, machine_facts())


def test_growth_that_was_not_measured_says_so():
    run = promising(GrowthTarget("ours", "point", 1.5))
    page = markdown(replace(run, cases=run.cases[:1]), machine_facts())
    assert "point ≤ 1.5× at the last ÷ the first case: not measured" in page


def test_a_recorded_report_replaces_the_one_before_and_no_other(tmp_path):
    page = tmp_path / "RESULTS.md"
    page.write_text("# Kept\n\nSome words.\n\n## other\n\nfigures\n\n## reads\n\nold figures\n")
    for _ in range(2):
        keep(SOUND, machine_facts(), page)
    text = page.read_text()
    assert text.startswith("# Kept\n\nSome words.\n\n## other\n\nfigures\n\n## reads\n\n2026-01-02")
    assert text.count("## reads") == 1
    assert "old figures" not in text
    assert "- target ours, point ≤ 2.5× raw at small: met with 2× raw" in text


@pytest.mark.parametrize(
    "run", [replace(SOUND, quick=True), replace(SOUND, cases=(CaseRun(SUITE.cases[0], ()),))]
)
def test_neither_quick_nor_unsound_figures_are_recorded(run, tmp_path):
    with pytest.raises(ValueError, match="only a sound run of the full sizes"):
        keep(run, machine_facts(), tmp_path / "RESULTS.md")
    assert not (tmp_path / "RESULTS.md").exists()


def test_quick_figures_say_so():
    page = markdown(suite_run(case_run(SUITE.cases[0], 1), quick=True), machine_facts())
    assert "not to be quoted" in page


def test_the_record_holds_every_sample_and_the_machine_but_no_name_or_path(tmp_path):
    page = write_report(SOUND, machine_facts({"pytest": "9"}), tmp_path)
    assert page.name == "reads-20260102T030405Z.md"
    text = page.with_suffix(".json").read_text()
    kept = json.loads(text)
    assert len(kept["cases"][0]["samples"]["ours"]) == 5
    assert kept["cases"][0]["noise_floors"]["scan"] == pytest.approx(1.1025)
    assert kept["machine"]["cores"] >= 1
    assert kept["machine"]["packages"]["pytest"]
    project = Path(__file__).resolve().parents[2]
    for private in (str(project), str(Path.home()), socket.gethostname() + '"'):
        assert private not in text


def test_the_record_says_why_a_run_failed_but_not_what_the_console_showed():
    whole = case_run(SUITE.cases[0], 1)
    failure = Failure(FailureKind.CRASHED, "killed by SIGSEGV: no output", "at /home/someone/x.py")
    run = suite_run(CaseRun(whole.case, whole.arms, whole.samples, {"ours": failure}))
    kept = json.dumps(record(run, machine_facts()))
    assert "killed by SIGSEGV" in kept
    assert "someone" not in kept


def test_figures_are_short_and_have_units():
    assert [show_seconds(value) for value in (12.345, 0.1234, 0.0000567)] == [
        "12.3 s",
        "123 ms",
        "56.7 µs",
    ]
    assert [show_ratio(value) for value in (0.1234, 2.0, 1234.5)] == ["0.123×", "2×", "1234×"]
    assert [show_count(value) for value in (12, 3456, 2_500_000)] == ["12", "3.46 k", "2.5 M"]


def test_growth_is_reported_as_if_the_machine_had_been_as_fast_in_both_cases():
    suite = replace(SOUND.suite, yardstick="scan")
    found = {(one.system, one.measure): one.ratio for one in growth(replace(SOUND, suite=suite))}
    plain = {(one.system, one.measure): one.ratio for one in growth(SOUND)}
    assert found[("ours", "point")] == plain[("ours", "point")] / plain[("ours", "scan")]
    assert ("ours", "scan") not in found
