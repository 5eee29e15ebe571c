"""The text cases of the schema language.

    === what is wrong
    node A { x: Strng }
    ---
    P131 1:13 unknown type
      help: did you mean `String`?

Each expected line is a code, a place and a fragment of the message, in the order of the text; a
`help:` line under it is a fragment of its hint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import Diagnostic

CASES = Path(__file__).parents[2] / "cases" / "schema"
VALID = sorted((CASES / "valid").glob("*.pg"))
_EXPECTED = re.compile(r"(?P<code>[PS][0-9]{3}) (?P<place>[0-9]+:[0-9]+) (?P<fragment>.+)")


@dataclass(frozen=True)
class Expected:
    code: str
    place: str
    fragment: str
    hint: str = ""

    def fits(self, found: Diagnostic) -> bool:
        return (
            (self.code, self.place) == (found.code, f"{found.line}:{found.column}")
            and self.fragment in found.message
            and self.hint in (found.hint or "")
        )


@dataclass(frozen=True)
class Case:
    title: str
    text: str
    expected: tuple[Expected, ...]

    def check(self, found: Iterable[Diagnostic]) -> None:
        found = list(found)
        shown = "\n\n".join(diagnostic.render() for diagnostic in found)
        assert len(found) == len(self.expected), shown
        for expected, diagnostic in zip(self.expected, found, strict=True):
            assert expected.fits(diagnostic), f"{expected}\n{diagnostic.code}\n{shown}"


def read_cases(path: Path) -> list[Case]:
    blocks = re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)
    assert not blocks[0].strip(), f"{path} has text before its first case"
    return [_case(block) for block in blocks[1:]]


def _case(block: str) -> Case:
    title, rest = block.split("\n", 1)
    text, expected = re.split(r"^---\n", rest, maxsplit=1, flags=re.MULTILINE)
    found: list[Expected] = []
    for line in expected.splitlines():
        if line.startswith("  help: "):
            last = found.pop()
            hint = line.removeprefix("  help: ")
            found.append(Expected(last.code, last.place, last.fragment, hint))
            continue
        match = _EXPECTED.fullmatch(line)
        assert match, f"case {title!r} has an expected line that cannot be read: {line!r}"
        found.append(Expected(**match.groupdict()))
    return Case(title, text, tuple(found))


ERRORS = [case for path in sorted((CASES / "errors").glob("*.txt")) for case in read_cases(path)]
WARNINGS = read_cases(CASES / "warnings.txt")
