"""Writes the stub of the asynchronous graph from the signatures of the embedded one.

Run it as a program after a verb was added or changed: `python tests/aio/async_stub.py`.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cached_property
from pathlib import Path

import omnigraph
from omnigraph.aio import async_graph
from omnigraph.graph.conversion.row_formats import TypeRows
from omnigraph.history.diff import Diff

PLACE = Path(async_graph.__file__).with_suffix(".pyi")
PAIRS = {
    async_graph.AsyncGraph: omnigraph.Graph,
    async_graph.AsyncBranch: omnigraph.Branch,
    async_graph.AsyncView: omnigraph.GraphView,
    async_graph.AsyncTypeRows: TypeRows,
    async_graph.AsyncBlob: omnigraph.Blob,
    async_graph.AsyncBaseline: omnigraph.Baseline,
    async_graph.AsyncDiff: Diff,
}
WRAPPED = {
    "GraphView": "AsyncView",
    "Branch": "AsyncBranch",
    "TypeRows": "AsyncTypeRows",
    "blobs.Blob": "AsyncBlob",
    "Blob": "AsyncBlob",
    "Baseline": "AsyncBaseline",
    "Diff": "AsyncDiff",
}
ASSIGNED = {"AsyncBlob": ("    stat: BlobStat", "    range: ByteRange | None")}
"""Members that are made with an object."""
ROWS = {"AsyncDiff": "EntityChange", "AsyncTypeRows": "Row"}
"""The element type of an iteration."""
LEFT_OUT = {"open", "with_queries", "as_actor", "plan", "to_spark"}
"""Members whose result only works without a loop."""
HEAD = '''\
"""The signatures of the asynchronous graph; written by `tests/aio/async_stub.py`."""
# ruff: noqa: ANN401 - as the verbs themselves have it

import datetime
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import polars as pl
import pyarrow as pa

'''
KNOWN = set(re.findall(r"\b[A-Z]\w+", HEAD)) | {"None", "True", "False"}


def write_stub() -> str:
    classes = [describe_class(kind, embedded) for kind, embedded in PAIRS.items()]
    functions = [describe_function(getattr(omnigraph, name), name) for name in ("open", "connect")]
    text = "\n\n".join([*functions, *classes])
    whole = HEAD + "\n".join(list_imports(text)) + "\n\n" + text + "\n"
    return lay_out(lay_out(whole, "check", "--select", "I", "--fix"), "format")


def lay_out(text: str, *words: str) -> str:
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, *words, "--quiet", "--stdin-filename", PLACE.name, "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def describe_function(function, name: str) -> str:
    given = describe_parameters(function)
    return f"async def {name}({given}) -> AsyncGraph: ..."


def describe_class(kind, embedded) -> str:
    lines = [f"class {kind.__name__}:", *ASSIGNED.get(kind.__name__, ())]
    for name in sorted(one for one in dir(embedded) if not one.startswith("_")):
        if name not in LEFT_OUT:
            lines += describe_member(kind, embedded, name)
    if hasattr(kind, "query_batches"):
        given = describe_parameters(embedded.query)
        lines.append(f"    def query_batches({given}) -> AsyncIterator[pa.RecordBatch]: ...")
    if hasattr(kind, "__len__"):
        lines.append("    def __len__(self) -> int: ...")
    if hasattr(kind, "__aiter__"):
        lines.append(f"    def __aiter__(self) -> AsyncIterator[{ROWS[kind.__name__]}]: ...")
    if hasattr(kind, "__aenter__"):
        lines.append("    async def __aenter__(self) -> Self: ...")
        lines.append("    async def __aexit__(self, *failure: object) -> None: ...")
    return "\n".join(lines)


def describe_member(kind, embedded, name: str) -> list[str]:
    member = inspect.getattr_static(embedded, name)
    is_property = isinstance(member, property | cached_property)
    function = getattr(member, "fget", None) or getattr(member, "func", None) or member
    if not callable(function):
        return []
    gives = str(inspect.signature(function).return_annotation)
    gives = WRAPPED.get(gives, gives)
    if is_property:
        awaited = gives if name in kind.PLAIN else f"Awaitable[{gives}]"
        return ["    @property", f"    def {name}(self) -> {awaited}: ..."]
    given = describe_parameters(function)
    if name in kind.ITERATED:
        return [f"    def {name}({given}) -> Async{gives}: ..."]
    word = "def" if name == "branch" or name in kind.PLAIN else "async def"
    return [f"    {word} {name}({given}) -> {gives}: ..."]


def describe_parameters(function) -> str:
    """The parameters as they are written; what is given by default is not repeated."""
    parts, is_after_star = [], False
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not is_after_star:
            parts.append("*")
            is_after_star = True
        noted = "" if one.annotation is one.empty else f": {qualify(str(one.annotation))}"
        default = "" if one.default is one.empty else " = ..." if noted else "=..."
        parts.append(f"{one.name}{noted}{default}")
    return ", ".join(parts)


def qualify(annotation: str) -> str:
    return annotation.replace("loading.Input", "Input")


def list_imports(text: str) -> list[str]:
    """Return the imports of the names of types, as the modules of the verbs have them."""
    places = find_places()
    names = set(re.findall(r"(?<![\w.'\"])[A-Z]\w+", text)) - KNOWN
    names -= {kind.__name__ for kind in PAIRS}
    return sorted(f"from {places[name]} import {name}" for name in names)


def find_places() -> dict[str, str]:
    """The module of every name that the modules of the verbs import or define."""
    graph = "omnigraph.graph"
    found: dict[str, str] = {
        "Input": f"{graph}.conversion.load_inputs",
        "Row": f"{graph}.conversion.row_formats",
    }
    source = PLACE.parents[1]
    folders = ("graph", "history", "wire")
    paths = [path for one in folders for path in sorted(source.glob(f"{one}/*.py"))]
    for path in paths:
        module = f"omnigraph.{path.parent.name}.{path.stem}"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name] = module
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("omnigraph"):
                for alias in node.names:
                    found.setdefault(alias.name, str(node.module))
    return found


if __name__ == "__main__":
    PLACE.write_text(write_stub())
