"""Reads the migration cases, which are text: see `tests/cases/migration/README.md`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "cases" / "migration"


@dataclass
class Case:
    name: str
    accepted: str
    desired: str
    allow_data_loss: bool = False
    steps: list[object] = field(default_factory=list)
    """Step JSON as a dict, or `(entity, code, text)` for an unsupported change."""
    lines: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)


def read_cases() -> list[Case]:
    return [
        _case(path.stem, text)
        for path in sorted(FOLDER.glob("*.txt"))
        for text in path.read_text().split("=== ")[1:]
    ]


def _case(file: str, text: str) -> Case:
    title, _, body = text.partition("\n")
    accepted, desired, *expected = body.split("---\n")
    accepted = _text(accepted, "")
    case = Case(f"{file}: {title}", accepted, _text(desired, accepted))
    for line in "".join(expected).splitlines():
        if line.strip():
            _expect(case, line)
    return case


def _text(section: str, base: str) -> str:
    first, _, name = section.partition(" ")
    if first == "use":
        return (FOLDER / name.strip()).read_text()
    if first == "replace":
        for line in section.splitlines():
            old, _, new = line.removeprefix("replace ").partition(" =>")
            assert base.count(old) == 1, f"{old!r} must stand once in the text"
            base = base.replace(old, new.strip())
        return base
    return section


def _expect(case: Case, line: str) -> None:
    kind, _, rest = line.partition(": ")
    match kind:
        case "allow_data_loss":
            case.allow_data_loss = True
        case "step":
            case.steps.append(json.loads(rest))
        case "unsupported":
            entity, code, text = rest.split(" ", 2)
            case.steps.append((entity, None if code == "-" else code, text))
        case "line":
            case.lines.append(rest)
        case "note":
            code, _, text = rest.partition(" ")
            case.notes.append((code, text))
        case "error":
            code, _, text = rest.partition(" ")
            case.errors.append((code, text))
        case _:
            raise AssertionError(f"{case.name}: cannot read {line!r}")
