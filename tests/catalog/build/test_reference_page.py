"""The reference page of the schema language agrees with the compiler."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import RESERVED_EVERYWHERE, RESERVED_ON_EDGES
from omnigraph.catalog.declarations import CATALOG_CODES
from omnigraph.language.source import SCHEMA_SYNTAX_CODES, SourceText
from omnigraph.types.property import Scalar

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "schema-language.md"
TEXT = PAGE.read_text("utf-8")
EXAMPLES = re.findall(r"```pg\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.split("\n")[0])
def test_every_example_compiles(example):
    assert compile_schema(SourceText(example)).warnings == ()


def test_the_codes_are_listed_as_they_are():
    listed = dict(re.findall(r"^\| ([PS][0-9]{3}) \| (.+) \|$", TEXT, flags=re.MULTILINE))
    assert listed == {**SCHEMA_SYNTAX_CODES, **CATALOG_CODES}


def test_every_type_and_reserved_name_is_mentioned():
    for word in (*Scalar, *RESERVED_EVERYWHERE, *RESERVED_ON_EDGES):
        assert re.search(rf"`{word}[`(]", TEXT), word
