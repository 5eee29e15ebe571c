"""The text cases of the query language.

    === what is wrong
    query q() { match { $a: T } retrun { $a } }
    ---
    P107 1:29 expected `return`
      help: did you mean `return`?

A file under `errors` is read like one of the schema language. A file under `printed` has the
canonical text below the line instead of mistakes.
"""

from __future__ import annotations

import re
from pathlib import Path

from language.schema.schema_case_files import read_cases

CASES = Path(__file__).parents[2] / "cases" / "query"
VALID = sorted((CASES / "valid").glob("*.gq"))
ERRORS = [case for path in sorted((CASES / "errors").glob("*.txt")) for case in read_cases(path)]


def read_printed(path: Path) -> list[tuple[str, str, str]]:
    """The title, the text as written and the text as printed of every case."""
    cases = []
    for block in re.split(r"^=== ", path.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        title, rest = block.split("\n", 1)
        written, printed = re.split(r"^---\n", rest, maxsplit=1, flags=re.MULTILINE)
        cases.append((title, written, printed))
    return cases


PRINTED = [
    case for path in sorted((CASES / "printed").glob("*.txt")) for case in read_printed(path)
]
