from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from language.query.query_case_files import PRINTED, VALID
from language.query.query_strategies import query_files
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.language.syntax_printer import print_query_file


def parse(text):
    return parse_query_file(SourceText(text, "q.gq"))


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_a_printed_file_parses_to_the_same_tree(path):
    tree = parse(path.read_text("utf-8"))
    assert parse(print_query_file(tree)) == tree


@pytest.mark.parametrize("path", VALID, ids=lambda path: path.stem)
def test_printing_a_printed_file_changes_nothing(path):
    printed = print_query_file(parse(path.read_text("utf-8")))
    assert print_query_file(parse(printed)) == printed


@pytest.mark.parametrize(
    ("written", "printed"), [case[1:] for case in PRINTED], ids=[case[0] for case in PRINTED]
)
def test_the_layout_is(written, printed):
    assert print_query_file(parse(written)) == printed


def survives_printing_and_parsing(tree):
    assert parse(print_query_file(tree)) == tree


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(query_files)
def test_any_tree_survives_printing_and_parsing(tree):
    survives_printing_and_parsing(tree)


@pytest.mark.fuzz
@settings(max_examples=1_000, deadline=None, suppress_health_check=list(HealthCheck))
@given(query_files)
def test_many_trees_survive_printing_and_parsing(tree):
    survives_printing_and_parsing(tree)
