"""A story is a list of steps; told through a door, it is what the door answers to each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from behaviour.library_doors import Refused

Story = Mapping[str, Callable[..., object]]

VOLATILE = ("created_at", "authored_at", "cursor", "resume_cursor", "table_path", "etag", "uri")
ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
TEXT_NAME = re.compile("<(stdin|schema|query)>")


def tell(door, story: Story) -> dict[str, object]:
    """What a door answers to every step, without what differs from one run to the next."""
    told: dict[str, object] = {}
    for name, step in story.items():
        try:
            told[name] = mask(json.loads(json.dumps(step(door))))
        except Refused as refused:
            told[name] = {"exit": refused.code, **mask(refused.body)}
    return told


def mask(value):
    """A document without ids, times and addresses."""
    if isinstance(value, dict):
        masked = {
            name: "…" if name in VOLATILE and member is not None else mask(member)
            for name, member in value.items()
            if name not in ("details", "request_id")
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
