"""The initial rows of the merge suites, and the rows each branch changes.

Plain values, for systems that run in different environments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from bench.hashing import hash_rows

MAIN, WORK = "main", "work"
Item = tuple[str, int, str]
"""A key, an amount and a text."""


def base_item(number: int) -> Item:
    return f"item-{number:07}", number, f"the text of item {number}"


def base_items(rows: int) -> Iterator[Item]:
    return map(base_item, range(rows))


def changed_items(parameters: dict[str, Any], branch: str) -> list[Item]:
    """The rows a branch changes, spread over the table; no two branches change the same one.

    A changed row has a negative amount.
    """
    rows, changes = parameters["rows"], parameters[branch]
    stride = rows // max(parameters[MAIN], parameters[WORK])
    assert stride > 1, "both sides change rows of their own"
    first = 0 if branch == WORK else 1
    items = (base_item(first + stride * number) for number in range(changes))
    return [(key, -1 - amount, text) for key, amount, text in items]


def describe(rows: int, total: int, changed: Iterable[Item], diff: int) -> dict[str, Any]:
    """The part of a sample that says what came out of the merge.

    Args:
        rows: How many rows there are in the end.
        total: The sum of their amounts.
        changed: The rows with a negative amount.
        diff: How many rows the difference of the branch from its start has.
    """
    found = sorted(changed)
    return {
        "result_hash": hash_rows([(rows, total, diff), *found]),
        "work": {"merge": len(found), "diff": diff},
        "preview": {"rows": rows, "sum": total, "changed": len(found), "diff": diff},
    }
