"""The reference page of the query language agrees with the compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.language.source import SourceText
from omnigraph.plan.query_lint import LINT_CODES, TYPE_CODES, lint_queries
from plan.bind.bind_cases import bind_file

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "query-language.md").read_text()
ROWS = dict(re.findall(r"^\| ([A-Z]\d+) \|(?: \w+ \|)? (.*) \|$", PAGE, re.MULTILINE))


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def catalog():
    (schema,) = blocks("pg")
    return identify_first(compile_schema(SourceText(schema, "page.pg")), "page")


@pytest.mark.parametrize("text", blocks("gq"), ids=lambda text: text.split("(")[0].strip())
def test_every_example_compiles_and_draws_no_advice(text, catalog):
    source = SourceText(text, "page.gq")
    assert bind_file(source, catalog)
    report = lint_queries(source, catalog, {"kind": "file", "path": "page.pg"})
    advice = [finding.line() for finding in report.findings if finding.code != "L206"]
    assert advice == []


def test_every_code_is_explained():
    assert {**TYPE_CODES, **LINT_CODES} == ROWS
