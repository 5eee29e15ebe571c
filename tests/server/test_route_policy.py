"""Every route against every right: what is allowed is exactly what the plainest reading says."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote

import msgspec
import pytest
import yaml

import omnigraph
from omnigraph.operations.operation_table import ROUTES, find_route
from omnigraph.operations.route_spec import GRAPH, RouteSpec
from policy.oracle import rules_that_allow
from server.route_requests import CLEAR, FIND, NOBODY, Asked, Right, list_requests
from server.serving import ADD, PEOPLE, SCHEMA, Server, serving

BRANCHED = ("read", "export", "change")
TARGETED = ("branch_create", "branch_delete", "branch_merge", "schema_apply")
SCOPES = ("any", "protected", "unprotected")
BRANCHES = ("main", "dev")


def make_bundle() -> dict:
    """An actor for every action with every scope, one who may do everything, and one nothing."""
    rules = []
    for action in BRANCHED:
        rules += [_make_rule([action], branch_scope=scope) for scope in SCOPES]
    for action in TARGETED:
        rules += [_make_rule([action], target_branch_scope=scope) for scope in SCOPES]
    rules.append(_make_rule(["invoke_query"]))
    rules.append(_make_rule(["admin"]))
    everything = [*BRANCHED, *TARGETED, "invoke_query", "admin"]
    rules.append({"id": "all", "allow": {"actors": {"group": "all"}, "actions": everything}})
    groups = {rule["id"]: [rule["id"]] for rule in rules}
    return {"version": 1, "groups": groups, "protected_branches": ["main"], "rules": rules}


def _make_rule(actions: list[str], **scope: str) -> dict:
    name = "-".join([*actions, *scope.values()])
    return {"id": name, "allow": {"actors": {"group": name}, "actions": actions, **scope}}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[tuple[Server, dict, dict[str, str]]]:
    folder, body = tmp_path_factory.mktemp("table"), make_bundle()
    with omnigraph.init(folder / "people.omni", SCHEMA) as graph:
        graph.load(PEOPLE, "append")
        commits = {"main": graph.mutate(ADD, params={"name": "M"}).commit.commit_id}
        for name in ("dev", "kept"):
            graph.create_branch(name)
        commits["dev"] = graph.mutate(ADD, params={"name": "D"}, branch="dev").commit.commit_id
    (folder / "table.policy.yaml").write_text(yaml.safe_dump(body))
    (folder / "stored.gq").write_text(FIND + "\n" + CLEAR)
    tokens = {actor: f"token-{actor}" for actor in (*body["groups"], "nobody")}
    flags = ("--policy", str(folder / "table.policy.yaml"), "--queries", str(folder / "stored.gq"))
    given = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(tokens)}
    with serving(folder / "people.omni", flags=flags, **given) as server:
        yield server, body, commits


def ask(connection: http.client.HTTPConnection, server: Server, asked: Asked, actor: str) -> tuple:
    headers = {"Authorization": f"Bearer token-{actor}", **asked.headers}
    body = asked.body
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    connection.request(asked.method, f"{server.graph}/{asked.path}", body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def is_allowed(body: dict, actor: str, right: Right) -> bool:
    return bool(rules_that_allow(body, actor, *right))


def test_every_route_of_a_graph_is_in_the_table() -> None:
    known = {route.operation for route in ROUTES if route.is_of_graph}
    commits = dict.fromkeys(BRANCHES, NOBODY)
    assert set(list_requests("main", commits)) == known, "say which rights a new route takes"


def read_members(route: RouteSpec, asked: Asked) -> dict[str, object]:
    """Return the members of a request that are given, by the names that the table has for them."""
    path, _, query = asked.path.partition("?")
    pattern = re.sub(r"{(\w+)}", r"(?P<\1>.+)", route.path.removeprefix(GRAPH + "/"))
    members: dict[str, object] = dict(parse_qsl(query))
    members |= re.fullmatch(pattern, path).groupdict()
    if route.request is not None:
        body = msgspec.convert(asked.body, route.request)
        members |= {name: getattr(body, name) for name in body.__struct_fields__}
    return {name: value for name, value in members.items() if value not in (None, False, [])}


@pytest.mark.parametrize("branch", BRANCHES)
def test_the_table_of_operations_has_the_rights_of_every_route(branch: str) -> None:
    for operation, asked in list_requests(branch, dict.fromkeys(BRANCHES, NOBODY)).items():
        route = find_route(operation)
        given = read_members(route, asked)
        always, perhaps = [], []
        for right in route.rights:
            condition = right.when or right.of
            if right.unless in given or (condition is not None and condition not in given):
                continue
            default = "main" if right.has_default else None
            names = [
                None if member is None else given.get(member, default)
                for member in (right.branch, right.target)
            ]
            if right.of is not None:  # only the graph knows the branch
                names = next(list(one[1:]) for one in asked.rights if one[0] == right.action)
            (perhaps if right.only else always).append((str(right.action), *names))
        assert set(always) <= set(asked.rights), operation
        assert set(asked.rights) <= {*always, *perhaps}, operation


@pytest.mark.parametrize("branch", BRANCHES)
def test_every_right_opens_exactly_the_routes_that_take_it(guarded, branch: str) -> None:
    server, body, commits = guarded
    before = server.get("commits", token="token-all").body
    connection = server.connect()
    wrong = []
    for operation, asked in list_requests(branch, commits).items():
        for actor in (*body["groups"], "nobody"):
            missing = [right for right in asked.rights if not is_allowed(body, actor, right)]
            status, data = ask(connection, server, asked, actor)
            if missing and asked.is_masked and missing[0] == asked.rights[0]:
                is_right = status == 404
            elif missing:
                is_right = status == 403
            else:
                is_right = status not in (401, 403) and status < 500
            if not is_right:
                wrong.append((operation, actor, missing, status, data[:200]))
    connection.close()
    assert wrong == []
    assert server.get("commits", token="token-all").body == before, "nothing was changed"


def test_a_hidden_resource_answers_as_a_missing_one(guarded) -> None:
    """Status, headers and body are equal, except for the id and the requested name."""
    server, _, commits = guarded
    token = "token-export-any"
    pairs = [
        ("POST", "queries/find", "queries/nothing"),
        ("GET", f"commits/{commits['dev']}/changes", f"commits/{NOBODY}/changes"),
    ]
    for method, there, missing in pairs:
        answers = []
        for path in (there, missing):
            asked = server.ask(method, path, token=token, headers={"X-Request-Id": "same"})
            name = path.split("/")[1].encode()
            headers = {
                k: v for k, v in asked.headers.items() if k not in ("date", "content-length")
            }
            answers.append((asked.status, headers, asked.data.replace(name, b"?")))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404


@pytest.mark.parametrize("padding", [" ", "\t"])
def test_a_padded_branch_opens_no_route(guarded, padding: str) -> None:
    """An action denied on `main` is denied on ` main`, too."""
    server, _, commits = guarded
    plain, padded = "main", f"{padding}main"
    connection = server.connect()
    for operation, asked in list_requests(plain, commits).items():
        if isinstance(asked.body, dict) and any(v == plain for v in asked.body.values()):
            changed = {k: padded if v == plain else v for k, v in asked.body.items()}
            tried = Asked(asked.method, asked.path, asked.rights, changed, asked.headers)
        elif f"branch={plain}" in asked.path or asked.path.endswith(f"/{plain}"):
            path = asked.path.replace(f"={plain}", f"={quote(padded)}")
            path = path.replace(f"/{plain}", f"/{quote(padded)}")
            tried = Asked(asked.method, path, asked.rights, asked.body, asked.headers)
        else:
            continue
        for action in {right[0] for right in asked.rights} & {*BRANCHED, *TARGETED}:
            status, data = ask(connection, server, tried, f"{action}-unprotected")
            assert status in (400, 403, 404), (operation, action, status, data[:200])
    connection.close()
