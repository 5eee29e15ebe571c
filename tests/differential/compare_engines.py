"""Differences between the rows of an engine and the answer of the interpreter."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence

from differential.interpreter import Answer
from differential.model_aggregates import Bag, same_value
from differential.model_evaluation import Rough

Given = Mapping[str, object]


def difference(answer: Answer, rows: Sequence[Given]) -> str | None:
    """The first difference in words, or None when the rows are an answer."""
    names = [column.name for column in answer.columns]
    odd = next((row for row in rows if list(row) != names), None)
    if odd is not None:
        return f"columns {list(odd)} instead of {names}"
    if len(rows) != answer.count:
        return f"{len(rows)} rows instead of {answer.count}"
    first = answer.offset
    start = 0
    for group in answer.groups:
        low, high = max(0, start - first), min(len(rows), start + len(group) - first)
        start += len(group)
        if low < high:
            problem = _unmatched(group, rows[low:high], signed_zeros=answer.signed_zeros)
            if problem is not None:
                return f"rows {low} to {high - 1}: {problem}"
    return None


def _unmatched(group: Sequence[Given], rows: Sequence[Given], *, signed_zeros: bool) -> str | None:
    """Rows that no row of the group stands for; each may be used once."""
    left = list(group)
    if not _is_rough(group[0]):
        wanted = Counter(_key(row, signed_zeros=signed_zeros) for row in group)
        surplus = Counter(_key(row, signed_zeros=signed_zeros) for row in rows) - wanted
        if not surplus:
            return None
    for row in rows:
        same = next((other for other in left if _same(other, row, signed_zeros)), None)
        if same is None:
            candidates = "\n    ".join(_shown(other) for other in left[:5])
            return f"unexpected\n    {_shown(row)}\n  instead of one of\n    {candidates}"
        left.remove(same)
    return None


def _is_rough(value: object) -> bool:
    match value:
        case Rough() | Bag():
            return True
        case dict():
            return any(_is_rough(item) for item in value.values())
        case _:
            return False


def _key(row: Given, *, signed_zeros: bool) -> object:
    return json.dumps(row) if signed_zeros else same_value(dict(row))


def _same(wanted: object, given: object, signed_zeros: bool) -> bool:  # noqa: FBT001
    """Return whether a value equals the expected one, as far as that is determined."""
    match wanted:
        case Rough(value, slack):
            return isinstance(given, float) and abs(value - given) <= slack
        case Bag():
            return isinstance(given, list) and _same_members(wanted, given, signed_zeros)
        case dict():
            return (
                isinstance(given, dict)
                and list(wanted) == list(given)
                and all(_same(wanted[name], given[name], signed_zeros) for name in wanted)
            )
        case list():
            return (
                isinstance(given, list)
                and len(wanted) == len(given)
                and all(map(_same, wanted, given, [signed_zeros] * len(given)))
            )
        case float():
            if not isinstance(given, float) or wanted != given:
                return False
            return not signed_zeros or math.copysign(1, wanted) == math.copysign(1, given)
        case _:
            return type(wanted) is type(given) and wanted == given


def _same_members(wanted: Bag, given: list[object], signed_zeros: bool) -> bool:  # noqa: FBT001
    left = list(given)
    for item in wanted:
        same = next((at for at, other in enumerate(left) if _same(item, other, signed_zeros)), None)
        if same is None:
            return False
        # By place: a zero equals the zero of the other sign.
        del left[same]
    return not left


def _shown(row: object) -> str:
    return json.dumps(row, ensure_ascii=False, default=str)
