"""Changes as people read them: one entity a block, and of each only what changed."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from omnigraph.graph.results import Commit
    from omnigraph.history.images import EntityChange, Image

Command = TypeVar("Command", bound=Callable[..., object])

_COLOURS = {"insert": "green", "update": "yellow", "delete": "red"}
_LONGEST_VALUE = 200
_ABSENT = object()


def filter_options(command: Command) -> Command:
    """`--kind`, `--type` and `--op`; the command gets each as a tuple."""
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
    """Whether colours make sense on stdout."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout is not None and sys.stdout.isatty()


def render_change(change: EntityChange, *, colour: bool = False) -> Iterator[str]:
    """A line for the entity, then one for each property that came, went or changed."""
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
    """The commit a block of changes belongs to."""
    merged = f"  merges {commit.merged_parent_commit_id}" if commit.merged_parent_commit_id else ""
    return (
        f"commit {commit.commit_id}  {commit.branch}  {commit.actor_id or '-'}  "
        f"{format_time(commit.created_at)}{merged}"
    )


def format_time(microseconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(microseconds / 1_000_000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def render_image(image: Image | None) -> Iterator[str]:
    """The properties of an entity that has any value, one a line."""
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
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}… ({len(text)})"


def _paint(text: str, name: str, *, colour: bool, bold: bool = False) -> str:
    return click.style(text, fg=name, bold=bold) if colour else text
