"""Calls of Lance that are forbidden because they silently lose or duplicate rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph

SOURCES = Path(omnigraph.__file__).parent
FORBIDDEN = {
    "merge_insert": "a staged merge inserts one new key twice",
    "Append": "a bare append is put on top of whatever came before it",
    "commit_lock": "a lock turns the conditional write of a version into a plain one",
    "detached": "cleanup takes the files of detached versions",
    "write_dataset": "it commits by itself, under an identity that is not ours",
}


def modules_with(text: str) -> Iterator[tuple[str, ast.Module]]:
    """The modules that have a text somewhere, be it in a comment, and what they are made of."""
    for path in sorted(SOURCES.rglob("*.py")):
        source = path.read_text()
        if text in source:
            yield path.relative_to(SOURCES).as_posix(), ast.parse(source)


def names(tree: ast.Module) -> Iterator[str]:
    """Return the names a module refers to: attributes, plain names and arguments."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.alias(name=name):
                yield name.rpartition(".")[2]
            case _:
                continue


@pytest.mark.parametrize("name", FORBIDDEN)
def test_our_code_never_uses_what_loses_or_doubles_rows(name):
    users = [module for module, tree in modules_with(name) if name in names(tree)]
    assert users == [], FORBIDDEN[name]


def test_every_commit_to_lance_is_made_once():
    """Its own retries would put a stale transaction on top of what it has not seen."""
    commits = [
        (module, {argument.arg: argument.value for argument in node.keywords})
        for module, tree in modules_with("LanceDataset.commit")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "LanceDataset.commit"
    ]
    assert {module for module, _ in commits} == {"storage/tables/table_commit.py"}
    assert [ast.unparse(given["max_retries"]) for _, given in commits] == ["0"] * len(commits)
