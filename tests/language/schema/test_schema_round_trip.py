from __future__ import annotations

import pytest
from hypothesis import given

from language.schema.schema_case_files import CASES, VALID
from language.schema.schema_text_strategies import schema_files
from omnigraph.language.schema_parser import parse_schema
from omnigraph.language.source import SourceText
from omnigraph.language.syntax_printer import print_schema


@given(schema_files)
def test_a_tree_is_what_its_printed_text_parses_to(tree):
    assert parse_schema(SourceText(print_schema(tree))) == tree


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_printing_preserves_the_tree_and_fixes_the_layout(path):
    tree = parse_schema(SourceText(path.read_text("utf-8")))
    printed = print_schema(tree)
    assert parse_schema(SourceText(printed)) == tree
    assert print_schema(parse_schema(SourceText(printed))) == printed


def test_the_layout_is_the_recorded_one():
    tree = parse_schema(SourceText((CASES / "valid" / "music.pg").read_text("utf-8")))
    assert print_schema(tree) == (CASES / "printed" / "music.pg").read_text("utf-8")
