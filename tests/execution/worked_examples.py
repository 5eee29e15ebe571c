"""Queries over the music graph with the rows or mistakes they must give: `cases/execute`.

A case:

    === what it shows
    query q($s: String) { … }
    --- {"s": "ada"}
    {"a.name": "Ada Voss"}
    --- {"s": "zz"}

`---` starts a run, with its parameters; `javascript` before them asks for integers that a double
can hold, `model m` has texts embedded by the mock provider under that name of a model. Expected
lines are rows, in order when the query has an order, or `error` with a code and parts of the
message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from differential.compare_engines import difference
from differential.data import GraphData, read_jsonl
from differential.interpreter import Answer
from omnigraph.catalog.catalog import Catalog
from omnigraph.embedding.embedder import MockEmbedder, make_query_embedder
from omnigraph.errors import BadRequest, CompileError, OmniError, ParameterError
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.compile import compile_catalog
from omnigraph.plan.plan_nodes import Node, Rank, ReadPlan, Sort
from omnigraph.plan.walk import list_children
from omnigraph.types.json_value import LARGEST_SAFE_INTEGER
from omnigraph.types.parameters import coerce_parameters

CASES = Path(__file__).parents[1] / "cases"
FOLDER = CASES / "execute"
SCHEMA = (CASES / "schema/valid/music.pg").read_text()
CONTENTS = (FOLDER / "music.jsonl").read_text()


@dataclass(frozen=True)
class Run:
    """One execution of a query: what it is given and what must come out."""

    title: str
    text: str
    parameters: dict[str, object]
    javascript: bool
    model: str | None
    expected: tuple[str, ...]

    @property
    def rows(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.expected]

    @property
    def error(self) -> list[str] | None:
        """The code and the parts of the message, when a mistake is expected."""
        if self.expected and self.expected[0].startswith("error "):
            return self.expected[0].split(" ", 2)[1:]
        return None


def read_runs() -> list[Run]:
    return [run for path in sorted(FOLDER.glob("*.txt")) for run in _runs_of(path)]


def _runs_of(path: Path) -> list[Run]:
    runs = []
    for case in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
        head, *parts = re.split(r"^---", case, flags=re.MULTILINE)
        title, _, text = head.partition("\n")
        for part in parts:
            options, _, expected = part.partition("\n")
            words, brace, members = options.partition("{")
            model = re.search(r"model (\S+)", words)
            runs.append(
                Run(
                    title=f"{path.stem}: {title}",
                    text=text,
                    parameters=json.loads(brace + members) if brace else {},
                    javascript="javascript" in words,
                    model=model[1] if model else None,
                    expected=tuple(expected.splitlines()),
                )
            )
    return runs


RUNS = read_runs()


@cache
def catalog() -> Catalog:
    return compile_catalog(SourceText(SCHEMA, "music.pg"))


@cache
def contents() -> GraphData:
    return read_jsonl(catalog(), CONTENTS)


def expect(run: Run, answered) -> None:
    """Run it, and check the error of the case, if it has one."""
    if run.error is None:
        answered()
        return
    with pytest.raises(OmniError) as caught:
        answered()
    code, *parts = run.error
    found = caught.value
    if isinstance(found, CompileError):
        assert found.diagnostics[0].code.startswith(code)
    else:
        assert isinstance(found, ParameterError if code == "parameter" else BadRequest)
    words = parts[0].split() if code == "embedding" else parts
    assert all(part in str(found) for part in words)


def check(answer: Answer, rows: Sequence[dict[str, object]]) -> None:
    problem = difference(answer, rows)
    assert problem is None, problem


def bound(run: Run, schema: Catalog) -> ReadPlan:
    source = SourceText(run.text, "case.gq")
    (query,) = parse_query_file(source).queries
    plan = bind_query(query, schema, source)
    assert isinstance(plan, ReadPlan)
    return plan


def parameters_of(run: Run, plan: ReadPlan) -> dict[str, object]:
    return coerce_parameters([(p.name, p.type) for p in plan.parameters], run.parameters)


def embedder(model: str | None):
    """Vectors of texts, made by one model and refused for every other."""
    return make_query_embedder(MockEmbedder(model or ""))


def is_ordered(node: Node) -> bool:
    if isinstance(node, Rank) or (isinstance(node, Sort) and node.keys):
        return True
    return any(is_ordered(child) for child in list_children(node))


def in_any_order(answer: Answer) -> Answer:
    rows = [row for group in answer.groups for row in group]
    return replace(answer, groups=[rows])


def unsafe_integers_back(row: dict[str, object]) -> dict[str, object]:
    """The row as it is without regard to JavaScript; the interpreter knows only that."""

    def back(value: object) -> object:
        is_number = isinstance(value, str) and value.lstrip("-").isdigit()
        return int(value) if is_number and abs(int(value)) > LARGEST_SAFE_INTEGER else value  # type: ignore[arg-type]

    return {name: back(value) for name, value in row.items()}
