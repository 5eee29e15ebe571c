"""The OpenAPI document.

Generated from the route table and the types of request and response bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import msgspec

from omnigraph.identity import MAIN
from omnigraph.operations.operation_table import ROUTES, list_schemas
from omnigraph.operations.route_spec import QueryParameter, Right, RouteSpec
from omnigraph.result import Result
from omnigraph.version import __version__
from omnigraph.wire.http_protocol import (
    IDEMPOTENCY_KEY,
    IF_GRAPH_COMMIT,
    JSON,
    MAX_KEY_LENGTH,
    OCTETS,
    REQUEST_ID,
)

RIGHTS = "x-omnigraph-rights"
"""Member of an operation with the rights that it requires under a policy."""
_REF = "#/components/schemas/{name}"
_PATH_NAME = re.compile(r"\{(\w+)\}")
_ERRORS_OF_ALL = (400, 405, 500)
_ERRORS_WITH_TOKEN = (401, 403)
_ERRORS_OF_GRAPH = (404, 409, 410, 413)
_BUSY = 503
_ERRORS_OF_BODY = (408, 413, 415)
_ERRORS_OF_WRITE = (409, 429)
_PATH_MEANINGS = {
    "graph_id": "The id of the graph.",
    "name": "The name of the stored query.",
    "branch": "The name of the branch.",
    "commit_id": "The whole id of the commit.",
    "tag": "The name of the tag.",
    "consumer": "The name of the consumer.",
    "key": "The idempotency key of the write.",
}
_GRAPH_ID = {"type": "string", "pattern": "^[A-Za-z0-9-]{1,64}$"}


@lru_cache(maxsize=2)
def describe_api(*, has_auth: bool = True) -> dict[str, Any]:
    """Return the OpenAPI document; security schemes only if tokens are used."""
    bodies = list_schemas()
    _, components = msgspec.json.schema_components(
        bodies, ref_template=_REF, schema_hook=_describe_any
    )
    for kind in _walk(Result):
        if kind.__name__ in components:
            _describe_document(kind, components[kind.__name__])
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        described = _describe_route(route, has_auth=has_auth)
        paths.setdefault(route.path, {})[route.method.lower()] = described
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Omnigraph API",
            "version": __version__,
            "description": "A versioned graph database over HTTP.",
        },
        "paths": paths,
        "components": {"schemas": components, "responses": _describe_failures()},
    }
    if has_auth:
        scheme = {"type": "http", "scheme": "bearer"}
        document["components"]["securitySchemes"] = {"bearer_token": scheme}
    return document


def _describe_any(kind: type) -> dict[str, Any]:
    """Describe an untyped value, as `object` is used in a struct."""
    if kind is object:
        return {"description": "Any JSON value."}
    raise NotImplementedError


def _walk(kind: type[Result]) -> Iterator[type[Result]]:
    for one in kind.__subclasses__():
        yield one
        yield from _walk(one)


def _describe_document(kind: type[Result], schema: dict[str, Any]) -> None:
    """Complete the schema of a result, which omits members that have their default."""
    members = schema["properties"]
    for name in kind.attributes:
        members.pop(name, None)
    if not kind.__struct_config__.omit_defaults:
        schema["required"] = list(members)
    for name in members.keys() - set(schema.get("required", ())):
        member = members[name]
        if member.pop("default", ...) is not None:
            continue
        choices = [one for one in member.get("anyOf", ()) if one != {"type": "null"}]
        if len(choices) == 1:
            members[name] = choices[0]


def _describe_route(route: RouteSpec[Any], *, has_auth: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": f"cluster_{route.operation}" if route.is_of_graph else route.operation,
        "summary": route.summary,
        "tags": ["graph" if route.is_of_graph else "server"],
        "parameters": [*_describe_path(route), *map(_describe_parameter, route.parameters)],
        "responses": _describe_responses(route, has_auth=has_auth),
    }
    if route.rights:
        described[RIGHTS] = [_describe_right(route, right) for right in route.rights]
    described["parameters"] += _describe_headers(route)
    if route.request is not None:
        described["requestBody"] = {
            "required": not route.is_body_optional,
            "content": {JSON: {"schema": _refer(route.request)}},
        }
    elif route.body_media != JSON:
        described["requestBody"] = {
            "required": True,
            "content": {route.body_media: {"schema": _describe_raw(route.body_media)}},
        }
    if has_auth and not route.is_open:
        described["security"] = [{"bearer_token": []}]
    return described


def _describe_right(route: RouteSpec[Any], right: Right) -> dict[str, str]:
    """Describe a right by its action and the members that it depends on."""
    fields = () if route.request is None else msgspec.structs.fields(route.request)
    known = {one.name: one.encode_name for one in fields}
    known |= {name: name for name in _PATH_NAME.findall(route.path)}
    known |= {one.name: one.name for one in route.parameters}
    members = {
        "branch": right.branch,
        "target_branch": right.target,
        "branch_of": right.of,
        "query": right.query,
        "with": right.when,
        "without": right.unless,
    }
    named = {word: known.get(name, MAIN) for word, name in members.items() if name is not None}
    return {"action": str(right.action), **named, **({"if": right.only} if right.only else {})}


def _describe_path(route: RouteSpec[Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_MEANINGS[name],
            "schema": _GRAPH_ID if name == "graph_id" else {"type": "string", "minLength": 1},
        }
        for name in _PATH_NAME.findall(route.path)
    ]


def _describe_parameter(one: QueryParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer", "minimum": 1} if one.is_number else {}
    if not one.is_number:
        schema = {"type": "string", **({"enum": list(one.choices)} if one.choices else {})}
    if one.repeats:
        schema = {"type": "array", "items": schema}
    return {
        "name": one.name,
        "in": "query",
        "required": one.is_required,
        "description": one.meaning,
        "schema": schema,
    }


def _describe_headers(route: RouteSpec[Any]) -> list[dict[str, Any]]:
    found = [_describe_header(REQUEST_ID, "Names the request in the answer and in the log.")]
    if route.takes_key:
        meaning = "Identifies the write: a repeated request returns the first result."
        found.append(_describe_header(IDEMPOTENCY_KEY, meaning, maxLength=MAX_KEY_LENGTH))
    if route.is_conditional:
        meaning = "Execute the write only if the branch is at this commit."
        found.append(_describe_header(IF_GRAPH_COMMIT, meaning))
    if route.path.endswith("/blob"):
        found += [
            _describe_header("If-Match", "Only this value."),
            _describe_header("If-None-Match", "Only others."),
        ]
    if route.operation == "getBlob":
        found += [
            _describe_header("Range", "One range of bytes."),
            _describe_header("If-Range", "Of this value."),
        ]
    return found


def _describe_header(
    name: str, meaning: str, *, is_required: bool = False, **limits: object
) -> dict[str, Any]:
    schema = {"type": "string", **limits}
    return {
        "name": name,
        "in": "header",
        "required": is_required,
        "description": meaning,
        "schema": schema,
    }


def _describe_responses(route: RouteSpec[Any], *, has_auth: bool) -> dict[str, Any]:
    schemas = [_refer(one) for one in route.responses]
    document = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    content = {
        media: {"schema": document if media == JSON and schemas else _describe_raw(media)}
        for media in route.answer_media
    }
    if route.method == "HEAD":
        content = {}
    responses: dict[str, Any] = {"200": {"description": "OK", "content": content}}
    for status in _list_statuses(route, has_auth=has_auth):
        text = HTTPStatus(status).phrase
        if status == 206 or (status == 503 and route.operation == "ready"):
            responses[str(status)] = {"description": text, "content": content}
        elif status < 400 or route.method == "HEAD":
            responses[str(status)] = {"description": text}
        else:
            responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return responses


def _describe_failures() -> dict[str, Any]:
    """Describe the error responses by status."""
    statuses = {one for route in ROUTES for one in _list_statuses(route, has_auth=True)}
    schema = {"$ref": _REF.format(name="ErrorBody")}
    return {
        str(status): {
            "description": HTTPStatus(status).phrase,
            "content": {JSON: {"schema": schema}},
        }
        for status in sorted(statuses)
        if status >= 400
    }


def _list_statuses(route: RouteSpec[Any], *, has_auth: bool) -> list[int]:
    found = {*_ERRORS_OF_ALL, *route.statuses}
    if not route.is_open:
        found |= {*_ERRORS_WITH_TOKEN, _BUSY} if has_auth else {403, _BUSY}
    if route.is_of_graph:
        found |= {*_ERRORS_OF_GRAPH}
    if route.request is not None or route.body_media != JSON:
        found |= {*_ERRORS_OF_BODY}
    if route.is_write or route.method in ("DELETE", "PUT", "POST"):
        found |= {*_ERRORS_OF_WRITE}
    if len(route.answer_media) > 1:
        found.add(406)
    return sorted(found)


def _refer(body: type[msgspec.Struct]) -> dict[str, Any]:
    return {"$ref": _REF.format(name=body.__name__)}


def _describe_raw(media: str) -> dict[str, Any]:
    if media == JSON:
        return {"type": "object"}
    if media == OCTETS:
        return {"type": "string", "format": "binary"}
    return {"type": "string"}
