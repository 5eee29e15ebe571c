"""A name means one thing: no two modules and no two classes of the package share one."""

import ast
from collections import Counter
from pathlib import Path

MODULES = sorted((Path(__file__).parents[2] / "src" / "omnigraph").rglob("*.py"))
OF_EVERY_PACKAGE = {"__init__", "__main__"}


def find_repeated(names: list[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def test_no_two_modules_have_the_same_name() -> None:
    names = [path.stem for path in MODULES if path.stem not in OF_EVERY_PACKAGE]
    assert len(names) > 100
    assert find_repeated(names) == []


def test_no_two_classes_have_the_same_name() -> None:
    trees = [ast.parse(path.read_text()) for path in MODULES]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    assert len(names) > 100
    assert find_repeated(names) == []
