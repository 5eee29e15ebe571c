"""Commits and changes as text: commit lines, the commit graph, a block for each changed entity."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from omnigraph.wire.change_results import EntityChange, Image
    from omnigraph.wire.commit_results import Commit, RowCounts


def render_commits(commits: Sequence[Commit]) -> list[str]:
    """Return a line for each commit, in aligned columns, with the first line of its message."""
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
    """Return the rows inserted, updated and deleted, such as `+3 ~1`; empty if there are none."""
    marks = {
        "+": sum(one.inserted for one in tables),
        "~": sum(one.updated for one in tables),
        "-": sum(one.deleted for one in tables),
    }
    return " ".join(f"{mark}{count:,}" for mark, count in marks.items() if count)


def describe_commit(commit: Commit) -> Iterator[str]:
    """Yield every member of one commit, a line each."""
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


def draw_history(commits: Sequence[Commit]) -> Iterator[tuple[str, Commit | None]]:
    """Yield the lines of the commit graph, newest first, each with the commit it shows, if any.

    A lane waits for the commit that comes next in it. Lanes that wait for one commit are joined
    above it; below a merge there is one more.
    """
    lanes: list[str] = []
    for commit in commits:
        if commit.commit_id not in lanes:
            lanes.append(commit.commit_id)
        at = lanes.index(commit.commit_id)
        while lanes.count(commit.commit_id) > 1:
            joined = len(lanes) - 1 - lanes[::-1].index(commit.commit_id)
            yield _join(len(lanes), joined, at), None
            del lanes[joined]
        yield " ".join("*" if lane == at else "|" for lane in range(len(lanes))), commit
        parents = list(commit.parents)
        lanes[at : at + 1] = parents[:1]
        if len(parents) > 1:
            yield _fork(len(lanes), at), None
            lanes.insert(at + 1, parents[1])


def _join(lanes: int, joined: int, into: int) -> str:
    """Return the line on which a lane joins another to the left; later lanes move up."""
    line = ""
    for lane in range(lanes):
        line += "|" if lane < joined else " "
        line += "_" if into <= lane < joined - 1 else "/" if joined - 1 <= lane < lanes - 1 else " "
    return line.rstrip()


def _fork(lanes: int, at: int) -> str:
    """Return the line on which a lane forks off; lanes to the right move on."""
    return "".join("| " if lane < at else "|\\" if lane == at else " \\" for lane in range(lanes))


Command = TypeVar("Command", bound=Callable[..., object])

_COLOURS = {"insert": "green", "update": "yellow", "delete": "red"}
_MAX_VALUE_CHARACTERS = 200
_ABSENT = object()


def filter_options(command: Command) -> Command:
    """Add `--kind`, `--type` and `--op`; the command gets each as a tuple."""
    decorated: Callable[..., object] = command
    for option in (
        click.option(
            "--op",
            "ops",
            multiple=True,
            type=click.Choice(("insert", "update", "delete")),
            help="Only this operation; repeatable.",
        ),
        click.option("--type", "types", multiple=True, metavar="T", help="Only this; repeatable."),
        click.option(
            "--kind",
            "kinds",
            multiple=True,
            type=click.Choice(("node", "edge")),
            help="Only nodes or edges.",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[return-value]


def use_colour() -> bool:
    """Return whether stdout is a terminal that shows colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def render_change(change: EntityChange, *, colour: bool = False) -> Iterator[str]:
    """Yield a line for the entity, and one for each property added, removed or changed."""
    headline = f"{change.op} {change.kind} {change.type_name} {change.id}{_render_ends(change)}"
    yield _paint(headline, _COLOURS[change.op], colour=colour, bold=True)
    before, after = _list_properties(change.before), _list_properties(change.after)
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if change.before is None:
            if now is not None:
                yield _paint(f"  + {name}: {_render_value(now)}", "green", colour=colour)
        elif change.after is None:
            if was is not None:
                yield _paint(f"  - {name}: {_render_value(was)}", "red", colour=colour)
        elif was != now:
            yield f"  {name}: {_render_value(was)} -> {_render_value(now)}"


def render_cause(commit: Commit) -> str:
    """Return the headline of a commit above its changes."""
    merged = f"  merges {commit.merged_parent_commit_id}" if commit.merged_parent_commit_id else ""
    return (
        f"commit {commit.commit_id}  {commit.branch}  {commit.actor_id or '-'}  "
        f"{format_time(commit.created_at)}{merged}"
    )


def format_time(microseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(microseconds / 1_000_000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def render_image(image: Image | None) -> Iterator[str]:
    """Yield the properties of an entity that have a value, one a line."""
    if image is None:
        return
    if image.endpoints is not None:
        yield f"  {image.endpoints.source} -> {image.endpoints.target}"
    for name, value in image.properties.items():
        if value is not None:
            yield f"  {name}: {_render_value(value)}"


def _render_ends(change: EntityChange) -> str:
    ends = [
        image.endpoints
        for image in (change.before, change.after)
        if image is not None and image.endpoints is not None
    ]
    ends = ends or ([change.endpoints] if change.endpoints else [])
    shown = list(dict.fromkeys(f"{one.source} -> {one.target}" for one in ends))
    return f"  {' => '.join(shown)}" if shown else ""


def _list_properties(image: Image | None) -> Mapping[str, object]:
    return {} if image is None else image.properties


def _render_value(value: object) -> str:
    if value is _ABSENT:
        return "<absent>"
    if value is None:
        return "<null>"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    return (
        text
        if len(text) <= _MAX_VALUE_CHARACTERS
        else f"{text[:_MAX_VALUE_CHARACTERS]}… ({len(text)})"
    )


def _paint(text: str, name: str, *, colour: bool, bold: bool = False) -> str:
    return click.style(text, fg=name, bold=bold) if colour else text
