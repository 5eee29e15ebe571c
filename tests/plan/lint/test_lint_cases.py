"""The text cases of query lint: a file of queries, and the report a person reads about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.plan.query_lint import LINT_CODES, lint_queries
from plan.bind.bind_cases import Case, catalog_of, read_cases

FOLDER = Path(__file__).parents[2] / "cases" / "lint"
CASES = read_cases(FOLDER)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_file_is_reported_on_as_the_case_says(case: Case):
    report = lint_queries(case.source, catalog_of(case.schema), {"kind": "file"})
    assert report.lines() == case.expected.splitlines()


def test_every_lint_code_has_a_case():
    shown = {code for case in CASES for code in re.findall(r"^\w+ (\w\d{3}):", case.expected, re.M)}
    assert shown == LINT_CODES.keys()
