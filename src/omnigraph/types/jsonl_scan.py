"""What the bytes of a line tell before it is parsed: its size, and how many members it can have."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from omnigraph.errors import ResourceLimitExceeded, RowProblem
from omnigraph.types.jsonl_types import LineLimits
from omnigraph.types.list_columns import Integers
from omnigraph.types.problems import ProblemCode

_STRUCTURAL = (b"{", b"}", b"[", b"]", b",", b":")
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)

_BEFORE_A_COLON = np.zeros(256, np.bool_)
_BEFORE_A_COLON[list(b'" \t\r')] = True
"""What can stand directly before the colon of a member: its name's end, or white space."""


def check_limits(line: bytes, limits: LineLimits) -> RowProblem | None:
    """The limit a line exceeds, if it does."""
    if len(line) > limits.line_bytes:
        return _make_problem("graph_batch_line_bytes", limits.line_bytes, len(line))
    slots = limits.structural_slots
    if _count(line) > slots and (exact := _count(_STRING.sub(b"", line))) > slots:
        return _make_problem("graph_batch_json_structural_slots", slots, exact)
    return None


def _count(text: bytes) -> int:
    return sum(text.count(character) for character in _STRUCTURAL)


def _make_problem(resource: str, limit: int, actual: int) -> RowProblem:
    return RowProblem(str(ResourceLimitExceeded(resource, limit, actual)), ProblemCode.LIMIT)


def bound_members(lines: Sequence[bytes]) -> Integers:
    """For each line, a number its JSON members do not exceed.

    Every member has a colon, and before the colon the quotation mark that ends its name, or white
    space. Text inside strings may look the same, so the number can be too large, never too small.
    """
    text = np.frombuffer(b"\n".join(lines) + b"\n", np.uint8)
    colons = np.flatnonzero(text == ord(":"))
    candidates = colons[_BEFORE_A_COLON[text[colons - 1]]]
    ends = np.flatnonzero(text == ord("\n"))
    return np.diff(np.searchsorted(candidates, ends), prepend=0)
