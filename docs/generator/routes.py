"""The routes of the OpenAPI document, and an example of a request for each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from generator.body_tables import find_schema
from omnigraph.operations.openapi import describe_api


class Route(NamedTuple):
    """A route as the OpenAPI document describes it."""

    method: str
    path: str
    described: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.described["operationId"]).removeprefix("cluster_")


def list_routes() -> list[Route]:
    return [
        Route(method.upper(), path, one)
        for path, methods in describe_api()["paths"].items()
        for method, one in methods.items()
    ]


def render_example(route: Route) -> str:
    """A request with everything that it needs."""
    one = route.described
    address = route.path.replace("{graph_id}", "people")
    needed = [p for p in one["parameters"] if p["required"]]
    query = "&".join(
        f"{p['name']}={pick_example(p['schema'])}" for p in needed if p["in"] == "query"
    )
    words = ["curl -s" if route.method != "HEAD" else "curl -sI"]
    words += [f"-X {route.method}"] if route.method in ("PUT", "DELETE") else []
    words += ['-H "Authorization: Bearer $TOKEN"'] if "security" in one else []
    words += [f"-H '{p['name']}: …'" for p in needed if p["in"] == "header"]
    body = one.get("requestBody")
    if body is not None:
        media, content = next(iter(body["content"].items()))
        data = render_example_body(content["schema"]) if media == "application/json" else "@FILE"
        words += [f"-H 'Content-Type: {media}'", f"--data-binary {data}"]
    separator = "?" if query else ""
    return "$ " + " ".join([*words, f'"$SERVER{address}{separator}{query}"'])


def render_example_body(schema: dict[str, Any]) -> str:
    found = find_schema(schema)
    members = {name: pick_example(found["properties"][name]) for name in found.get("required", ())}
    return f"'{json.dumps(members, ensure_ascii=False)}'"


def pick_example(schema: dict[str, Any]) -> str:
    return str(schema["enum"][0]) if "enum" in schema else "…"


def describe_parameter(parameter: dict[str, Any]) -> str:
    schema, said = parameter["schema"], parameter.get("description", "")
    items = schema.get("items", schema)
    if "enum" in items:
        said += f" One of {', '.join(f'`{word}`' for word in items['enum'])}."
    return f"{said} May be given several times." if schema.get("type") == "array" else said


def describe_right(right: Mapping[str, str]) -> str:
    """A row about a right: its action, the branches that are presented, and the condition."""
    words = {name: f"`{right[name]}`" for name in right}
    branch = words.get("branch", "–")
    if "branch_of" in right:
        branch = f"that of {words['branch_of']}"
    given = words.get("with") or words.get("branch_of")
    conditions = [
        f"with {given}" if given else "",
        f"without {words['without']}" if "without" in right else "",
        right.get("if", ""),
    ]
    condition = ", ".join(filter(None, conditions))
    return f"| {words['action']} | {branch} | {words.get('target_branch', '–')} | {condition} |"
