"""The document agrees with the server, and every answer with the document."""

import inspect
import json
import re
from urllib.parse import quote

import msgspec
import pytest

import omnigraph
from omnigraph.operations.openapi import describe_api
from omnigraph.operations.operation_table import ROUTES, find_route
from omnigraph.server.application import HANDLERS
from omnigraph.server.write_routes import run_verb
from server.serving import ADD, ALL, serving

LINE = json.dumps({"type": "Person", "data": {"name": "Eve"}})
BLOB = "blob?entity=node&type=Person&id=Ada&property=photo"


def test_every_route_is_described_once_under_a_name_of_its_own() -> None:
    document = describe_api()
    assert document["openapi"] == "3.1.0"
    described = [
        (method.upper(), path, one["operationId"])
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    ]
    assert sorted(described) == sorted(
        (r.method, r.path, f"cluster_{r.operation}" if r.is_of_graph else r.operation)
        for r in ROUTES
    )
    assert len({name for *_, name in described}) == len(described)
    for reference in _references(document):
        *_, kind, name = reference.split("/")
        assert name in document["components"][kind]


def test_without_tokens_the_document_has_no_word_of_them(shared) -> None:
    assert "bearer" in json.dumps(describe_api(has_auth=True))
    document = shared.get("/openapi.json")
    assert document.status == 200
    assert "bearer" not in document.data.decode()
    assert document.body == describe_api(has_auth=False)


def test_every_answer_is_of_its_type(people, tmp_path) -> None:
    """One call of every route with a body, held against the type that describes it."""
    (tmp_path / "add.gq").write_text(f"{ADD}\n{ALL}")
    flags = ("--unauthenticated", "--queries", str(tmp_path / "add.gq"))
    with serving(people, flags=flags) as server:
        _require_types(server)


def _require_types(server) -> None:
    head = server.get("commits").body["commits"][0]["graph_commit_id"]
    key = {"Idempotency-Key": "k/1"}
    schema = server.get("schema").body["schema_source"].replace("age: I32?", "age: I32?  n: I32?")
    add = {"query": ADD, "params": {"name": "Cy"}}
    lines = {"Content-Type": "application/x-ndjson"}
    octets = {"Content-Type": "application/octet-stream"}
    calls = {
        "list_queries": server.get("queries"),
        "invoke_query": server.post("queries/all"),
        "health": server.get("/healthz"),
        "ready": server.get("/readyz"),
        "getSnapshot": server.get("snapshot"),
        "query": server.post("query", {"query": ALL}),
        "mutate": server.post("mutate", add, headers=key),
        "getSchema": server.get("schema"),
        "applySchema": server.post("schema/apply", {"schema_source": schema}),
        "load": server.post("load", {"data": LINE}),
        "loadNdjson": server.post("load/ndjson", LINE.encode(), headers=lines),
        "listBranches": server.get("branches?limit=1"),
        "createBranch": server.post("branches", {"name": "side"}),
        "mergeBranches": server.post("branches/merge", {"source": "side"}),
        "deleteBranch": server.ask("DELETE", "branches/side"),
        "listCommits": server.get("commits?limit=1"),
        "getCommit": server.get(f"commits/{head}"),
        "getCommitChanges": server.get(f"commits/{head}/changes?limit=1"),
        "pollChanges": server.get("changes?start=beginning&limit=1"),
        "getWrite": server.get(f"writes/{quote('k/1', safe='')}"),
        "explain": server.post("explain", {"query": ALL}),
        "lint": server.post("lint", {"queries": ALL}),
        "planSchema": server.post("schema/plan", {"schema_source": schema}),
        "revert": server.post("revert", {"commit": "main"}),
        "cherryPick": server.post("cherry-pick", {"commit": "main", "dry_run": True}),
        "restore": server.post("restore", {"revision": "main"}),
        "createTag": server.post("tags", {"name": "v1"}),
        "listTags": server.get("tags"),
        "deleteTag": server.ask("DELETE", "tags/v1"),
        "diff": server.get("diff?before=main"),
        "getEntityHistory": server.get("history?type=Person&id=Ada"),
        "setConsumer": server.ask("PUT", "consumers/c"),
        "listConsumers": server.get("consumers"),
        "deleteConsumer": server.ask("DELETE", "consumers/c"),
        "renameBranch": _rename(server),
        "putBlob": server.ask("PUT", BLOB, b"x", headers=octets),
    }
    for operation, answer in calls.items():
        assert answer.status == 200, (operation, answer)
        _require_type(operation, answer.body)
    with_body = {route.operation for route in ROUTES if route.response is not None}
    assert with_body - calls.keys() == {"listGraphs"}


def _rename(server):
    server.post("branches", {"name": "old"})
    return server.post("branches/rename", {"name": "old", "new_name": "new"})


def test_graphs_are_not_listed_without_a_policy_for_the_server(people) -> None:
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"maria": "t"}'}
    with serving(people, flags=(), token="t", **tokens) as server:
        assert server.get("/graphs").status == 403


def _require_type(operation: str, body: dict) -> None:
    kind = find_route(operation).response
    msgspec.convert(body, kind)
    _require_known(kind, body, operation)


def _require_known(kind: type[msgspec.Struct], body: dict, operation: str) -> None:
    known = {field.encode_name for field in msgspec.structs.fields(kind)}
    known |= {kind.__struct_config__.tag_field} - {None}
    assert set(body) <= known, f"{operation}: {set(body) - known}"
    for field in msgspec.structs.fields(kind):
        value = body.get(field.encode_name)
        kinds = _list_structs(field.type)
        if not kinds or value is None:
            continue
        items = value if isinstance(value, list) else [value]
        for one in (item for item in items if isinstance(item, dict)):
            _require_known(_choose_kind(kinds, one), one, f"{operation}.{field.encode_name}")


def _choose_kind(kinds: list[type[msgspec.Struct]], body: dict) -> type[msgspec.Struct]:
    """Return the kind that the tag of a body names, where there are several."""
    config = kinds[0].__struct_config__
    if config.tag_field is None:
        return kinds[0]
    return next(k for k in kinds if k.__struct_config__.tag == body[config.tag_field])


def _list_structs(kind: object) -> list[type[msgspec.Struct]]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return [kind]
    return [one for inner in getattr(kind, "__args__", ()) for one in _list_structs(inner)]


def _references(document: object) -> list[str]:
    if isinstance(document, dict):
        own = [document["$ref"]] if "$ref" in document else []
        return own + [found for one in document.values() for found in _references(one)]
    if isinstance(document, list):
        return [found for one in document for found in _references(one)]
    return []


@pytest.mark.parametrize("name", ["QueryRequest", "LoadRequest", "BranchCreateRequest"])
def test_bodies_refuse_what_they_do_not_declare(name: str) -> None:
    assert describe_api()["components"]["schemas"][name]["additionalProperties"] is False


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation)
def test_the_members_of_a_write_are_parameters_of_its_verb(route) -> None:
    if HANDLERS[route.operation] is not run_verb:
        return
    verb = inspect.signature(getattr(omnigraph.Graph, route.verb))
    given = {"idempotency_key": "k"} if route.takes_key else {}
    given |= {"expected_head": "c"} if route.is_conditional else {}
    if route.request is not None:
        given |= dict.fromkeys(route.request.__struct_fields__)
    path = [name for name in re.findall(r"{(\w+)}", route.path) if name != "graph_id"]
    verb.bind(None, *path, **given)
