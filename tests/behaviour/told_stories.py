"""A story is a list of steps; told through a door, it is what the door answers to each."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from behaviour.library_doors import Refused
from behaviour.served_copies import ServedCopy, Terms

Story = Mapping[str, Callable[..., object]]

ON_STORAGE = ("sdk", "cli")
"""The doors that open the files themselves."""
VOLATILE = ("created_at", "authored_at", "cursor", "resume_cursor", "table_path", "etag", "uri")
ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
TEXT_NAME = re.compile("<(stdin|schema|query)>")


def tell_everywhere(
    doors: Mapping[str, Callable[[Path], Any]],
    story: Story,
    schema: str,
    folders: pytest.TempPathFactory,
    terms: Terms | None = None,
) -> dict[str, dict[str, object]]:
    """Run the story on every surface; each begins with a copy of the same empty graph."""
    first = ServedCopy.take(schema, terms, copies=len(doors))
    told = {}
    for name, kind in doors.items():
        root = folders.mktemp(name) / "graph.omni"
        door = kind(root)
        if terms is not None:
            door.terms = terms
        if name in ON_STORAGE:
            shutil.copytree(first.root, root)
        else:
            door.init(schema)
        told[name] = tell(door, story)
    return told


def tell(door, story: Story) -> dict[str, object]:
    """Return the answers of a surface to every step, without what differs between runs."""
    told: dict[str, object] = {}
    for name, step in story.items():
        try:
            told[name] = mask(json.loads(json.dumps(step(door))))
        except Refused as refused:
            told[name] = {"exit": refused.code, **mask(refused.body)}
    return told


def mask(value):
    """A document without ids, times and addresses, and why a load ran where it did."""
    if isinstance(value, dict):
        masked = {
            name: "…" if name in VOLATILE and member is not None else mask(member)
            for name, member in value.items()
            if name not in ("details", "request_id", "engine_reason")
        }
        return {name: masked[name] for name in sorted(masked)}
    if isinstance(value, list | tuple):
        return [mask(one) for one in value]
    if not isinstance(value, str):
        return value
    return TEXT_NAME.sub("<text>", ULID.sub("<id>", value))


def list_error_kinds(told: Mapping[str, object]) -> set[str]:
    """The kinds of all failures of a story."""
    return {step["kind"] for step in told.values() if isinstance(step, dict) if "exit" in step}
