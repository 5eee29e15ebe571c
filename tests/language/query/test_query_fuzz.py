"""Damaged query texts: whatever is done to a file, it parses or is refused with places in it."""

from __future__ import annotations

import pytest

from language.damaged_texts import DamagedTexts
from language.query.query_case_files import ERRORS, VALID
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.language.syntax_printer import print_query_file

TEXTS = [path.read_text("utf-8") for path in VALID] + [case.text for case in ERRORS]
SNIPPETS = [
    *"{}()[]:,.@?=<>|*-;#$\"\\/'`~!%^&+\x00\n\t\r é漢🙂0a_A",
    *["query", "match", "return", "order", "limit", "offset", "distinct", "optional", "hops", "as"],
    *["not", "and", "or", "in", "is", "null", "contains", "insert", "merge", "update", "delete"],
    *["set", "where", "asc", "desc", "now()", "date(", "search(", "nearest(", "count(", "type("],
    *["$a", "$a.x", "$_", "$a: T", "$a knows $b", "<knows>", "{1,3}", "[1, 2]", '"x"', "//", "/*"],
    *[
        "-1",
        "1e999",
        "9" * 30,
        "3d",
        "->",
        "..",
        "==",
        "<>",
        '"\\q"',
        "\ud800",
        "\u2028",
        "SignedTo",
    ],
    *[" query x() { match { $a: T } return { $a } } ", " not { $a knows $_ } ", " return { $a } "],
]


def check(source: SourceText) -> None:
    tree = parse_query_file(source)
    assert parse_query_file(SourceText(print_query_file(tree))) == tree


DAMAGED = DamagedTexts("fuzz.gq", TEXTS, SNIPPETS, check)


def test_a_damaged_query_parses_or_is_refused():
    DAMAGED.try_some()


@pytest.mark.fuzz
def test_a_damaged_query_parses_or_is_refused_for_a_minute():
    DAMAGED.try_for_a_minute()
