import re
from pathlib import Path

import pytest

from omnigraph.catalog.assign_identities import IDENTITY_CODES
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.schema_lint import (
    SCHEMA_LINT_CODES,
    LintFamily,
    lint_catalog,
    lint_schema,
)
from omnigraph.errors import Severity
from omnigraph.language.source import SourceText

CASES = [
    tuple(part.strip() for part in (title, *body.split("---\n")))
    for title, _, body in (
        case.partition("\n")
        for case in (Path(__file__).parent / "advice.txt").read_text().split("=== ")[1:]
    )
]
DOCS = Path(__file__).parents[3] / "docs" / "reference" / "schema-evolution.md"


@pytest.mark.parametrize(("title", "schema", "expected"), CASES, ids=[c[0] for c in CASES])
def test_advice_is_given_as_the_case_says(title, schema, expected):
    draft = compile_schema(SourceText(schema, "schema.pg"))
    findings = lint_catalog(draft.catalog)
    reported = [f"{f.code} {f.severity} {f.entity} {f.message}" for f in findings]
    wanted = expected.splitlines()
    assert len(reported) == len(wanted), reported
    for line, start in zip(reported, wanted, strict=True):
        assert line.startswith(start)


@pytest.mark.parametrize(("title", "schema", "expected"), CASES, ids=[c[0] for c in CASES])
def test_advice_on_a_text_points_at_what_it_is_about(title, schema, expected):
    draft = compile_schema(SourceText(schema, "schema.pg"))
    for finding, diagnostic in zip(lint_catalog(draft.catalog), lint_schema(draft), strict=True):
        assert (diagnostic.code, diagnostic.message) == (finding.code, finding.message)
        assert (diagnostic.stage, diagnostic.severity) == ("lint", finding.severity)
        assert schema[diagnostic.start :].startswith(finding.member or finding.owner[1])


def test_every_advice_code_has_a_case():
    shown = {line.split()[0] for _, _, expected in CASES for line in expected.splitlines()}
    advice = {c.code for c in SCHEMA_LINT_CODES.values() if c.severity is not Severity.ERROR}
    assert shown == advice


def test_a_code_names_its_family():
    for code, entry in SCHEMA_LINT_CODES.items():
        assert code == entry.code
        assert re.fullmatch(rf"OG-{entry.family}-\d{{3}}", code)


def test_the_families_without_codes_are_reserved():
    used = {entry.family for entry in SCHEMA_LINT_CODES.values()}
    assert set(LintFamily) - used == {
        LintFamily.CONSTRAINT_DELETION,
        LintFamily.BACKWARD_INCOMPATIBLE,
        LintFamily.OWNERSHIP,
        LintFamily.NON_LINEAR,
    }


def test_the_page_on_schema_evolution_lists_every_code():
    page = DOCS.read_text()
    for entry in SCHEMA_LINT_CODES.values():
        row = f"| {entry.code} | {entry.tier} | {entry.severity} | {entry.meaning}"
        assert row in page
    for code in IDENTITY_CODES:
        assert f"| {code} |" in page
