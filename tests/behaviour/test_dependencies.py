"""Every imported package is declared as a dependency, or named to the user where it is missing."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCE = PROJECT / "src" / "omnigraph"
OPTIONAL = {"kuzu", "networkx", "pandas", "polars", "torch", "torch_geometric"}
"""Optional packages, named in an error where they are not installed."""
BROUGHT = {"py4j", "_typeshed"}
"""Packages that come with PySpark, and packages for type checkers alone."""


def list_imports() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                yield str(path.relative_to(SOURCE)), name.partition(".")[0]


def test_every_import_is_of_a_declared_package() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = chain.from_iterable(project["optional-dependencies"].values())
    given = [*project["dependencies"], *extras]
    declared = {re.split(r"[\[<>=!~ ;]", one)[0].lower().replace("_", "-") for one in given}
    found = packages_distributions()
    unknown = {
        (path, name)
        for path, name in list_imports()
        if name not in sys.stdlib_module_names
        and name != "omnigraph"
        and name not in OPTIONAL | BROUGHT
        and not {one.lower().replace("_", "-") for one in found.get(name, [name])} & declared
    }
    assert unknown == set()
