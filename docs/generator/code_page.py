"""The page of the codes of mistakes in schemas, queries, policies and rows."""

from __future__ import annotations

from collections.abc import Mapping

from generator.page_note import NOTE
from omnigraph.catalog.assign_identities import IDENTITY_CODES
from omnigraph.catalog.declarations import CATALOG_CODES
from omnigraph.catalog.schema_lint import SCHEMA_LINT_CODES
from omnigraph.language.source import QUERY_SYNTAX_CODES, SCHEMA_SYNTAX_CODES, TEXT_CODES
from omnigraph.plan.query_lint import LINT_CODES, TYPE_CODES
from omnigraph.policy.policy_parser import POLICY_CODES
from omnigraph.types.row_problems import PROBLEM_MEANINGS


def render_codes(codes: Mapping[str, str]) -> str:
    lines = ["| Code | Meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{code}` | {codes[code]} |" for code in codes)])


def render_code_page() -> str:
    lint = {
        code: f"{one.severity}, {one.tier}: {one.meaning}"
        for code, one in SCHEMA_LINT_CODES.items()
    }
    return f"""# Codes of mistakes in texts and data

{NOTE}
A schema or query with mistakes raises `CompileError`; each of its diagnostics has one of these codes, a line, a column, the
line itself and often a hint.

## Text of either language

{render_codes(TEXT_CODES)}

## Syntax of queries

{render_codes(QUERY_SYNTAX_CODES)}

## Syntax of schemas

{render_codes(SCHEMA_SYNTAX_CODES)}

## Meaning of schemas

{render_codes({**CATALOG_CODES, **IDENTITY_CODES})}

## Meaning of queries

{render_codes(TYPE_CODES)}

## Query lint

{render_codes(LINT_CODES)}

## Schema lint and migration

{render_codes(lint)}

## Policy bundles

{render_codes(POLICY_CODES)}

## Input rows

`RowsRejected` carries the first bad rows of a load with these codes, and counts all of them.

{render_codes(PROBLEM_MEANINGS)}
"""
