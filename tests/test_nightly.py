"""The table that `./dev nightly` ends with, and what its suites leave to whom."""

from __future__ import annotations

from itertools import product

import pytest

from nightly import SUITES, draw_table, main, read_report

REPORT = """\
<testsuites><testsuite tests="4" failures="1" errors="0" skipped="1" time="12.4">
<testcase name="a"><properties><property name="seeds" value="46"/>
<property name="states" value="900"/></properties></testcase>
<testcase name="b"><properties><property name="seeds" value="4"/></properties></testcase>
<testcase name="c"><failure/></testcase><testcase name="d"><skipped/></testcase>
</testsuite></testsuites>
"""


def test_the_table_adds_up_what_tests_recorded(tmp_path):
    (tmp_path / "fuzz.xml").write_text(REPORT)
    assert draw_table([read_report("fuzz", tmp_path / "fuzz.xml")]).splitlines() == [
        "suite  tests  seeds  states  passed  failed  skipped  seconds",
        "fuzz       4     50     900       2       1        1       12",
    ]


def test_a_test_that_the_default_run_leaves_out_is_in_exactly_one_suite():
    names = ("slow", "fuzz", "object_store", "crash", "soak")
    for values in product([True, False], repeat=len(names)):
        marks = dict(zip(names, values, strict=True))
        if marks["soak"] and (marks["object_store"] or not marks["fuzz"]):
            continue  # there are none
        is_left_out = marks["slow"] or marks["fuzz"] or marks["object_store"]
        chosen = [name for name, (wanted, _) in SUITES.items() if eval(wanted, {}, dict(marks))]
        assert len(chosen) == is_left_out, marks


def test_a_suite_that_is_not_there_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["fuzz", "fizz"])
    assert "no such suite 'fizz'" in capsys.readouterr().err
