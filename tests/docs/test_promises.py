"""Every promise of the pages stands beside tests, and these exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("promises.md", "server-security.md")
PAGE = "\n".join((ROOT / "docs" / "reference" / name).read_text() for name in PAGES)
PROMISES = [row for row in re.findall(r"^\| (.+) \|$", PAGE, re.M) if row != "Promise | Tests"]
NAMED = re.findall(r"`(tests/[^`]+)`", PAGE)


@cache
def functions_of(file: str) -> set[str]:
    found = ast.walk(ast.parse((ROOT / file).read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", PROMISES, ids=lambda row: row.partition(".")[0][:60])
def test_a_promise_stands_beside_a_test(row: str) -> None:
    promise, _, tests = row.partition(" | ")
    assert promise.endswith(".")
    assert re.fullmatch(r"`tests/[^`]+::test_\w+`(, `tests/[^`]+::test_\w+`)*", tests)


@pytest.mark.parametrize("named", NAMED)
def test_a_test_that_is_named_exists(named: str) -> None:
    file, _, name = named.partition("::")
    assert name in functions_of(file)


def test_there_are_promises() -> None:
    assert len(PROMISES) > 20


@pytest.mark.parametrize("name", ["SECURITY.md", "README.md"])
def test_the_page_is_found(name: str) -> None:
    assert "docs/reference/promises.md" in (ROOT / name).read_text()
