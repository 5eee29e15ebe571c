"""The import contract sees every edge: no module loads one of another package by a string."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
PUBLIC_NAMES = Path("omnigraph/__init__.py")
"""The topmost package: its members are loaded on first use."""


def get_module_name(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


FILES = sorted(SOURCE.rglob("*.py"))
MODULES = {get_module_name(path) for path in FILES} - {"omnigraph"}


def find_named_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = node.value.partition(":")[0]
            if named in MODULES:
                yield named


def test_no_string_names_a_module_of_another_package() -> None:
    found = {
        (str(path), named)
        for path in (one.relative_to(SOURCE) for one in FILES)
        if path != PUBLIC_NAMES
        for named in find_named_modules(SOURCE / path)
        if named.split(".")[1] != path.parts[1]
    }
    assert len(MODULES) > 100
    assert found == set()
