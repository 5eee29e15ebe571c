"""The floor for a compiler written in Python: splitting the texts into tokens, and no more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from bench.systems.compile_texts import read_input, schema_text, time_compiles

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\$?[A-Za-z_]\w*|\d+(?:\.\d+)?|->|\.\.|[<>!]=|//[^\n]*|\S')


class _Scanner:
    """Scans the schema once and every query given."""

    def __init__(self) -> None:
        self._schema: list[str] = []

    def columns(self, text: str) -> Sequence[str]:
        """The words that follow `as`, which a scan alone can find."""
        if not self._schema:
            self._schema = _TOKEN.findall(schema_text())
        tokens = _TOKEN.findall(text)
        return [after for token, after in pairwise(tokens) if token == "as"]


def run(spec: dict[str, Any]) -> dict[str, Any]:
    return time_compiles(spec, read_input("query.gq"), _Scanner().columns)
