"""The page about Lance and the guards speak of the same habits."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "internals" / "lance.md"


def habits_on_the_page() -> set[str]:
    return set(re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE.read_text(), re.MULTILINE))


def habits_of_the_guards() -> set[str]:
    sources = [path.read_text() for path in HERE.glob("test_lance_guards_*.py")]
    return {name for source in sources for name in re.findall(r're-read "([^"]+)"', source)}


def test_every_guard_names_a_habit_on_the_page_and_every_habit_has_a_guard():
    beyond_testing = {"Durability"}
    assert habits_of_the_guards() == habits_on_the_page() - beyond_testing


def test_every_guard_says_what_to_read_when_it_is_red():
    for path in HERE.glob("test_lance_guards_*.py"):
        for name, docstring in re.findall(
            r'def (test_\w+)\([^)]*\):\n    """(.*)"""', path.read_text()
        ):
            assert docstring.startswith("Red"), name
        tests = re.findall(r"^def test_", path.read_text(), re.MULTILINE)
        assert len(tests) == len(re.findall(r'^    """Red', path.read_text(), re.MULTILINE)), path
