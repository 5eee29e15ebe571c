"""The page of the HTTP interface, a page for each route, and the OpenAPI document."""

from __future__ import annotations

import json
from http import HTTPStatus

from generator.body_tables import describe_media, render_bodies, render_body
from generator.page_note import NOTE
from generator.routes import (
    Route,
    describe_parameter,
    describe_right,
    list_routes,
    render_example,
)
from omnigraph.operations.openapi import RIGHTS, describe_api


def render_http_page() -> str:
    document = describe_api()
    rows = [
        f"| [`{one.method} {one.path}`](http/{one.name}.md) | {one.described['summary']} |"
        for one in list_routes()
    ]
    return f"""# The HTTP interface

{NOTE}
[Serve a graph](../how-to/serve.md) says how to start a server and how its answers are meant. The same as a document for programs is
[openapi.json](openapi.json), and every server gives its own at `/openapi.json`.

Names in an address are percent-encoded one by one: the branch `review/1` is `review%2F1`. Bodies are JSON (`application/json`) unless the route
says otherwise; a member or parameter that is not listed is refused with 400. Commits, branches and changes come in pages: a
`next_page_token` is given back as `page_token`. Every answer has an `X-Request-Id`, the one that was sent or a new one.

| Route | What it does |
|---|---|
{chr(10).join(rows)}

## Errors

Every failure has this body, whatever the route; [the codes](errors.md) that `kind` may have, with their statuses, have a page. `code` is
one of a few words; details of an error are further members.

{render_body(document["components"]["schemas"]["ErrorBody"], "Always")}
"""


def render_route_page(route: Route) -> str:
    one = route.described
    lines = [f"# {route.method} {route.path}", "", NOTE, one["summary"]]
    lines += ["", "```console", render_example(route), "```"]
    rows = [
        f"| `{p['name']}` | {p['in']} | {'yes' if p['required'] else 'no'} | {describe_parameter(p)} |"
        for p in one["parameters"]
        if p["name"] != "X-Request-Id"
    ]
    if rows:
        lines += ["", "## Parameters", ""]
        lines += ["| Parameter | In | Required | Meaning |", "|---|---|---|---|", *rows]
    rights = one.get(RIGHTS, ())
    if rights:
        lines += ["", "## What it requires", ""]
        lines += ["Under a [policy](../policy.md#actions), the actor needs these rights.", ""]
        lines += ["| Action | Branch | Target branch | When |", "|---|---|---|---|"]
        lines += [describe_right(right) for right in rights]
    taken = one.get("requestBody", {}).get("content", {})
    given = one["responses"]["200"].get("content", {})
    if taken:
        may = "" if one["requestBody"]["required"] else " The body may be left out."
        lines += [
            "",
            "## What it takes",
            "",
            f"{describe_media(taken)}.{may}",
            *render_bodies(taken, "Required"),
        ]
    if given:
        lines += [
            "",
            "## What it gives",
            "",
            f"200 with {describe_media(given)}.",
            *render_bodies(given, "Always"),
        ]
    others = [
        f"| {status} | {answer.get('description') or HTTPStatus(int(status)).phrase} |"
        for status, answer in one["responses"].items()
        if status != "200"
    ]
    lines += ["", "## Other statuses", ""]
    lines += [
        "Failures have [one body](../http.md#errors); [the codes](../errors.md) say which.",
        "",
    ]
    lines += ["| Status | |", "|---|---|", *others]
    return "\n".join(lines) + "\n"


def render_openapi() -> str:
    return json.dumps(describe_api(), indent=2) + "\n"
