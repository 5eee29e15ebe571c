"""A name means one thing: no two modules and no two classes of the package share one."""

import re
from collections import Counter
from pathlib import Path

MODULES = sorted((Path(__file__).parents[2] / "src" / "omnigraph").rglob("*.py"))
CLASS = re.compile(r"^class (\w+)", re.M)
OF_EVERY_PACKAGE = {"__init__", "__main__"}


def find_repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def test_no_two_modules_have_the_same_name() -> None:
    names = [path.stem for path in MODULES if path.stem not in OF_EVERY_PACKAGE]
    assert len(names) > 100
    assert find_repeated(names) == []


def test_no_two_classes_have_the_same_name() -> None:
    names = [name for path in MODULES for name in CLASS.findall(path.read_text())]
    assert len(names) > 100
    assert find_repeated(names) == []
