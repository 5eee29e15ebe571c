"""The bodies of the OpenAPI document as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omnigraph.operations.openapi import describe_api


def render_bodies(content: dict[str, Any], needed: str) -> Iterator[str]:
    """The members of a body and, after them, of what is in it."""
    waiting = [one["schema"] for one in content.values() if "$ref" in one["schema"]]
    seen = set()
    while waiting:
        schema = waiting.pop(0)
        name = schema["$ref"].rpartition("/")[2]
        if name in seen:
            continue
        seen.add(name)
        found = find_schema(schema)
        if "enum" in found:
            continue
        yield from ("", f"### {name}", "")
        if "description" in found:
            yield from (" ".join(found["description"].split()), "")
        yield render_body(found, needed)
        waiting += [
            one for member in found["properties"].values() for one in find_references(member)
        ]


def render_body(schema: dict[str, Any], heading: str) -> str:
    needed = set(schema.get("required", ()))
    rows = [
        f"| `{name}` | {describe_type(one)} | {'yes' if name in needed else 'no'} |"
        for name, one in schema["properties"].items()
    ]
    return "\n".join([f"| Member | Type | {heading} |", "|---|---|---|", *rows])


def describe_media(content: dict[str, Any]) -> str:
    words = []
    for media, one in content.items():
        name = one["schema"].get("$ref", "").rpartition("/")[2]
        words.append(f"[{name}](#{name.lower()}) as `{media}`" if name else f"`{media}`")
    return " or ".join(words)


def describe_type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(describe_type(one) for one in schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        found = find_schema(schema)
        return describe_type(found) if "enum" in found else f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {describe_type(schema['items'])}" if "items" in schema else "array"
    return str(schema.get("type", "any"))


def find_references(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "$ref" in schema:
        yield schema
    for inner in (*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())):
        yield from find_references(inner)


def find_schema(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return describe_api()["components"]["schemas"][name] if name else schema
