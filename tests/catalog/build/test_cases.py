"""Every rule of the schema language, as text: see `tests/cases/schema`."""

from __future__ import annotations

import pytest

from language.schema.schema_case_files import ERRORS, VALID, WARNINGS
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.declarations import CATALOG_CODES
from omnigraph.errors import CompileError, Severity
from omnigraph.language.source import SCHEMA_SYNTAX_CODES, SourceText


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.title)
def test_all_mistakes_are_reported_where_they_are(case):
    with pytest.raises(CompileError) as raised:
        compile_schema(SourceText(case.text, "case.pg"))
    case.check(raised.value.diagnostics)
    for found in raised.value.diagnostics:
        assert found.stage == ("parse" if found.code.startswith("P") else "catalog")
        assert found.severity is Severity.ERROR


@pytest.mark.parametrize("case", WARNINGS, ids=lambda case: case.title)
def test_warnings_do_not_stop_a_schema(case):
    draft = compile_schema(SourceText(case.text, "case.pg"))
    case.check(draft.warnings)
    assert all(found.severity is Severity.WARNING for found in draft.warnings)


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_valid_schemas_compile_without_a_warning(path):
    draft = compile_schema(SourceText.from_bytes(path.read_bytes(), path.name))
    assert draft.warnings == ()


@pytest.mark.parametrize("code", [*SCHEMA_SYNTAX_CODES, *CATALOG_CODES])
def test_every_code_has_a_case(code):
    expected = [e.code for case in (*ERRORS, *WARNINGS) for e in case.expected]
    assert code in expected


def test_every_code_in_a_case_is_listed():
    shared = {f"P10{number}" for number in range(1, 9)}
    listed = {*SCHEMA_SYNTAX_CODES, *CATALOG_CODES, *shared}
    assert {e.code for case in (*ERRORS, *WARNINGS) for e in case.expected} <= listed
