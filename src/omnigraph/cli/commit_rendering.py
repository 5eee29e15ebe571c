"""Commits as lines for people: when, by whom, what it was and how much it changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.graph.results import Commit, RowCounts


def render_commits(commits: Sequence[Commit]) -> list[str]:
    """A line for each commit, in aligned columns; a message of several lines by its first."""
    rows = [
        (
            one.commit_id,
            f"{one.time:%Y-%m-%d %H:%M:%S}",
            one.branch,
            one.actor_id or "-",
            one.kind or "-",
            count_changes(one.tables) or "-",
        )
        for one in commits
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for one, row in zip(commits, rows, strict=True):
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        headline = (one.message or "").partition("\n")[0]
        lines.append(f"{cells}  {headline}".rstrip())
    return lines


def count_changes(tables: Sequence[RowCounts]) -> str:
    """Rows inserted, updated and deleted, such as `+3 ~1`; empty if there are none."""
    marks = {
        "+": sum(one.inserted for one in tables),
        "~": sum(one.updated for one in tables),
        "-": sum(one.deleted for one in tables),
    }
    return " ".join(f"{mark}{count:,}" for mark, count in marks.items() if count)


def describe_commit(commit: Commit) -> Iterator[str]:
    """Everything about one commit."""
    for name, value in commit.wire().items():
        if name == "created_at":
            yield f"{name}: {commit.time:%Y-%m-%dT%H:%M:%S.%fZ}"
        elif name == "tables":
            for table in commit.tables:
                yield f"{table.table_key}: {count_changes([table])}"
        elif name == "details":
            yield from _describe_details(commit)
        else:
            yield f"{name}: {'' if value is None else value}"


def _describe_details(commit: Commit) -> Iterator[str]:
    rest = {name: value for name, value in commit.details.items() if name != "message"}
    if rest:
        yield f"details: {json.dumps(rest, ensure_ascii=False)}"
    if commit.message is not None:
        yield ""
        yield from (f"    {line}".rstrip() for line in commit.message.splitlines())
