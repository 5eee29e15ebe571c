"""The grammar page is correct: its examples parse and its codes are the parser's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from language.query.query_case_files import ERRORS
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "query-grammar.md").read_text("utf-8")
WRAPPERS = {
    "gq": "{}",
    "gq-clauses": "query q() {{ match {{ {} }} return {{ 1 }} }}",
    "gq-tail": "query q() {{ match {{ $a: T }} {} }}",
    "gq-statements": "query q() {{ {} }}",
}
EXAMPLES = re.findall(r"^```(gq[a-z-]*)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_an_example_of_the_grammar_page_parses(kind, example):
    parse_query_file(SourceText(WRAPPERS[kind].format(example), "query-grammar.md"))


QUERY_MODULES = ("query_", "body_", "clause_", "expression_", "error_")
SHARED_MODULES = ("source", "lexer")


def find_raised_codes(*names):
    """The codes in modules with these beginnings; a table of codes raises none."""
    modules = (ROOT / "src/omnigraph/language").glob("*.py")
    texts = [module.read_text() for module in modules if module.name.startswith(names)]
    return {code for text in texts for code in re.findall(r'"(P[0-9]{3})"(?!:)', text)}


def test_the_page_lists_the_codes_that_are_raised():
    listed = set(re.findall(r"\bP[0-9]{3}\b", PAGE))
    assert listed == find_raised_codes(*QUERY_MODULES, *SHARED_MODULES)


def test_every_code_of_the_parser_has_a_case():
    tested = {expected.code for case in ERRORS for expected in case.expected}
    assert find_raised_codes(*QUERY_MODULES) <= tested
