"""Cases of `tests/cases/bind`: a query, and the mistakes or the plan it must give.

    use music.pg
    === what the case shows
    query q() { … }
    ---
    T4 1:30 no edge type matches 'flies'
    help: did you mean `likes`?

Expected lines are mistakes (code, line:column, a part of the message; `help:` is part of the hint
of the mistake above) or else the plan as `dump` writes it. `ok` stands for any plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import CompileError, Diagnostic
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.plan_nodes import Plan

FOLDER = Path(__file__).parents[2] / "cases" / "bind"
_MISTAKE = re.compile(r"([A-Z]\d+) (\d+):(\d+) (.*)")


@dataclass(frozen=True)
class Mistake:
    code: str
    line: int
    column: int
    fragment: str
    hint: str | None = None


@dataclass(frozen=True)
class Case:
    file: str
    title: str
    schema: str
    text: str
    expected: str

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"

    @property
    def source(self) -> SourceText:
        return SourceText(self.text, "case.gq")

    @property
    def mistakes(self) -> list[Mistake]:
        found: list[Mistake] = []
        for line in self.expected.splitlines():
            if line.startswith("help: "):
                last = found.pop()
                found.append(Mistake(last.code, last.line, last.column, last.fragment, line[6:]))
            elif match := _MISTAKE.fullmatch(line):
                code, row, column, fragment = match.groups()
                found.append(Mistake(code, int(row), int(column), fragment))
        return found


@cache
def catalog_of(name: str) -> Catalog:
    text = (FOLDER / name).read_text()
    return identify_first(compile_schema(SourceText(text, name)), "cases")


def read_cases(folder: Path = FOLDER) -> list[Case]:
    return [case for path in sorted(folder.glob("*.txt")) for case in _cases_of(path)]


def _cases_of(path: Path) -> list[Case]:
    head, *parts = re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)
    schema = head.removeprefix("use ").strip()
    cases = []
    for part in parts:
        title, _, rest = part.partition("\n")
        text, _, expected = rest.partition("---\n")
        cases.append(Case(path.stem, title, schema, text, expected.strip()))
    return cases


def bind_file(source: SourceText, catalog: Catalog) -> dict[str, Plan]:
    """The plans of all queries of a file by name, or the mistakes of all of them."""
    plans: dict[str, Plan] = {}
    mistakes: list[Diagnostic] = []
    for decl in parse_query_file(source).queries:
        try:
            plans[decl.name] = bind_query(decl, catalog, source)
        except CompileError as error:
            mistakes += error.diagnostics
    if mistakes:
        raise CompileError(mistakes)
    return plans
