"""Damaged schema texts: whatever is done to a file, it compiles or is refused with places in it."""

from __future__ import annotations

import pytest

from language.damaged_texts import DamagedTexts
from language.schema.schema_case_files import ERRORS, VALID, WARNINGS
from omnigraph.catalog.build import compile_schema

TEXTS = [path.read_text("utf-8") for path in VALID] + [c.text for c in (*ERRORS, *WARNINGS)]
SNIPPETS = [
    *"{}()[]:,.@?=<>|*-;#$\"\\/'`~!%^&+\x00\n\t\r é漢🙂0a_A",
    *[
        "node",
        "edge",
        "interface",
        "implements",
        "enum(",
        "Vector(",
        "@card(0..1)",
        "@key",
        "@key(",
    ],
    *["@range(", "@check(", "@unique(src, dst)", "@default(", "@embed(", '"', "//", "/*", "*/"],
    *[
        "String",
        "[String]",
        "I32?",
        "Blob",
        "->",
        "..",
        "0..1",
        "-1",
        "1e999",
        "null",
        "true",
        "id",
    ],
    *["9" * 30, '"\\q"', '"(?=a)"', "\ud800", "\u2028", "x: I32 ", " node B {} "],
]

DAMAGED = DamagedTexts("fuzz.pg", TEXTS, SNIPPETS, compile_schema)


def test_a_damaged_schema_compiles_or_is_refused():
    DAMAGED.try_some()


@pytest.mark.fuzz
def test_a_damaged_schema_compiles_or_is_refused_for_a_minute():
    DAMAGED.try_for_a_minute()
