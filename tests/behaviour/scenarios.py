"""Scenarios: named steps that run on every surface, with comparable results."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from behaviour.library_surfaces import Refused
from behaviour.served_copies import ServedCopy, Terms

Scenario = Mapping[str, Callable[..., object]]

ON_STORAGE = ("sdk", "cli")
"""The surfaces that open the files themselves."""
VOLATILE = ("created_at", "authored_at", "cursor", "resume_cursor", "table_path", "etag", "uri")
ULID = re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b")
TEXT_NAME = re.compile("<(stdin|schema|query)>")


def run_everywhere(
    surfaces: Mapping[str, Callable[[Path], Any]],
    scenario: Scenario,
    schema: str,
    folders: pytest.TempPathFactory,
    terms: Terms | None = None,
) -> dict[str, dict[str, object]]:
    """Run the scenario on every surface; each begins with a copy of the same empty graph."""
    first = ServedCopy.take(schema, terms, copies=len(surfaces))
    results = {}
    for name, kind in surfaces.items():
        root = folders.mktemp(name) / "graph.omni"
        surface = kind(root)
        if terms is not None:
            surface.terms = terms
        if name in ON_STORAGE:
            shutil.copytree(first.root, root)
        else:
            surface.init(schema)
        results[name] = run_scenario(surface, scenario)
    return results


def run_scenario(surface, scenario: Scenario) -> dict[str, object]:
    """Return the answers of a surface to every step, without what differs between runs."""
    results: dict[str, object] = {}
    for name, step in scenario.items():
        try:
            results[name] = mask(json.loads(json.dumps(step(surface))))
        except Refused as refused:
            results[name] = {"exit": refused.code, **mask(refused.body)}
    return results


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


def list_error_kinds(results: Mapping[str, object]) -> set[str]:
    """The kinds of all failures of a scenario."""
    return {step["kind"] for step in results.values() if isinstance(step, dict) if "exit" in step}
