"""Every rule of binding, as text: see `tests/cases/bind`."""

from __future__ import annotations

import pytest

from omnigraph.errors import CompileError, Severity
from omnigraph.plan.query_lint import TYPE_CODES
from plan.bind.bind_cases import Case, bind_file, catalog_of, read_cases
from plan.bind.plan_dump import dump

CASES = read_cases()
REFUSED = [case for case in CASES if case.mistakes]
ACCEPTED = [case for case in CASES if not case.mistakes]


def bind(case: Case):
    return bind_file(case.source, catalog_of(case.schema))


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_all_mistakes_are_reported_where_they_are(case):
    with pytest.raises(CompileError) as raised:
        bind(case)
    found = raised.value.diagnostics
    expected = case.mistakes
    assert [(d.code, d.line, d.column) for d in found] == [
        (m.code, m.line, m.column) for m in expected
    ], raised.value.render()
    for diagnostic, mistake in zip(found, expected, strict=True):
        assert mistake.fragment in diagnostic.message
        assert mistake.hint is None or mistake.hint in (diagnostic.hint or "")


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_mistake_of_meaning_names_its_code_and_stage(case):
    with pytest.raises(CompileError) as raised:
        bind(case)
    for diagnostic in raised.value.diagnostics:
        assert diagnostic.severity is Severity.ERROR
        if diagnostic.code in TYPE_CODES:
            assert diagnostic.stage == "type"
            assert diagnostic.message.startswith(f"{diagnostic.code}: ")
        else:
            assert diagnostic.stage == "parse"


@pytest.mark.parametrize("case", ACCEPTED, ids=str)
def test_the_plan_says_what_the_query_means(case):
    plans = bind(case)
    if case.expected != "ok":
        assert "\n".join(dump(plan) for plan in plans.values()) == case.expected


@pytest.mark.parametrize("code", TYPE_CODES)
def test_every_code_has_a_case(code):
    assert code in {mistake.code for case in REFUSED for mistake in case.mistakes}


def test_titles_are_unique():
    titles = [str(case) for case in CASES]
    assert len(titles) == len(set(titles))
