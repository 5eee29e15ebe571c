"""Every failure has one shape; none shows a place of the server, and none is a surprise."""

import importlib
import inspect
import json
import random
import re
import socket
import string

import msgspec
import pytest

from omnigraph import errors
from omnigraph.errors import StorageKind
from omnigraph.language.source import SourceText, Span
from omnigraph.operations.operation_table import ROUTES
from omnigraph.operations.route_spec import RouteSpec
from omnigraph.wire.error_bodies import HIDDEN, SHOWN, describe_error
from server.serving import ADD, ALL, serving

CODES = {
    "unauthorized",
    "forbidden",
    "bad_request",
    "not_found",
    "method_not_allowed",
    "conflict",
    "too_many_requests",
    "internal",
}
STATUSES = {
    400,
    401,
    403,
    404,
    405,
    406,
    408,
    409,
    410,
    412,
    413,
    415,
    416,
    424,
    429,
    500,
    503,
    504,
}
SECRET = "/secret/bucket"


def list_errors(base: type = errors.OmniError) -> list[type[errors.OmniError]]:
    found = []
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            found += [child, *list_errors(child)]
    return found


def make(kind: type[errors.OmniError]) -> errors.OmniError:
    """An error of the class whose every text names a place of the server."""
    given = {
        "diagnostics": [SourceText("x", "q.gq").diagnostic("P1", "m", Span(0, 1))],
        "problems": [errors.RowProblem("r", "c")],
        "violations": [errors.Violation.of(errors.ViolationKind.VALUE, "node:A", "m")],
        "conflicts": [errors.MergeConflict.of("divergent_update", "node:A", "m")],
        "kind": StorageKind.TRANSIENT,
        "files": [SECRET],
        "broken": [("q", "x")],
        "operation_id": "01J9Z3N8Q4X7Y2K5M6P0R1S3T8",
    }
    if kind is errors.ClusterError:
        given["diagnostics"] = [errors.ClusterDiagnostic("c", errors.Severity.ERROR, "p", "m")]
    parameters = inspect.signature(kind.__init__).parameters
    values = {}
    for name, parameter in list(parameters.items())[1:]:
        if parameter.default is not parameter.empty:
            continue
        wants_number = str(parameter.annotation) in ("int", "float")
        text = SECRET if issubclass(kind, HIDDEN) else "x"
        values[name] = given.get(name, 1 if wants_number else text)
    return kind(**values)


@pytest.mark.parametrize("kind", list_errors(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_status_and_a_code_and_hides_places(kind) -> None:
    answer = describe_error(make(kind), "r1")
    body = json.dumps(answer.body)
    assert answer.status in STATUSES
    assert answer.status == kind.http_status
    assert answer.body["kind"] == kind.code
    assert answer.body["request_id"] == "r1"
    assert answer.body["code"] in CODES
    assert answer.body["error"]
    if issubclass(kind, HIDDEN) and not issubclass(kind, SHOWN):
        assert SECRET not in body
    if answer.status == 500:
        assert answer.body["code"] == "internal"


def test_an_unexpected_error_discloses_nothing() -> None:
    answer = describe_error(RuntimeError(SECRET), "r1")
    assert answer.status == 500
    assert SECRET not in json.dumps(answer.body)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind"),
    [
        ("GET", "/nosuch", None, 404, "route_not_found"),
        ("GET", "/graphs/people/nosuch", None, 404, "route_not_found"),
        ("GET", "/graphs/people/", None, 404, "route_not_found"),
        ("GET", "//graphs", None, 404, "route_not_found"),
        ("GET", "/graphs/nosuch/schema", None, 404, "not_found"),
        ("GET", "/graphs/a%20b/schema", None, 400, "bad_request"),
        ("GET", "/graphs/policies/schema", None, 400, "bad_request"),
        ("GET", f"/graphs/{'a' * 65}/schema", None, 400, "bad_request"),
        ("POST", "/graphs", {}, 405, "method_not_allowed"),
        ("DELETE", "/graphs/people", None, 404, "route_not_found"),
        ("HEAD", "/healthz", None, 405, None),
        ("GET", "query", None, 405, "method_not_allowed"),
        ("PATCH", "blob", None, 405, "method_not_allowed"),
        ("POST", "query", b"{", 400, "bad_request"),
        ("POST", "query", b"[]", 400, "bad_request"),
        ("POST", "query", b"null", 400, "bad_request"),
        ("POST", "query", b"\xff\xfe", 400, "bad_request"),
        ("POST", "query", b'{"query": "x", "query": "y"}', 400, "bad_request"),
        ("POST", "query", {}, 400, "bad_request"),
        ("POST", "query", {"query": 7}, 400, "bad_request"),
        ("POST", "query", {"query": ALL, "brnch": "main"}, 400, "bad_request"),
        ("POST", "query", {"query": ALL, "branch": "nosuch"}, 404, "branch_not_found"),
        ("POST", "query", {"query": ALL, "branch": ""}, 400, "bad_request"),
        ("POST", "query", {"query": ALL, "snapshot": "x"}, 404, "commit_not_found"),
        ("POST", "mutate", {"query": ALL}, 400, "bad_request"),
        ("POST", "mutate", {"query": ADD}, 400, "parameter_error"),
        ("POST", "branches", {"name": "a//b"}, 400, "bad_request"),
        ("POST", "branches", {"name": "x", "from": "nosuch"}, 404, "branch_not_found"),
        ("POST", "branches/merge", {"source": "main"}, 400, "bad_request"),
        ("POST", "branches/merge", {"source": "nosuch"}, 404, "branch_not_found"),
        ("DELETE", "branches/main", None, 400, "bad_request"),
        ("GET", "commits?branch=nosuch", None, 404, "branch_not_found"),
        ("GET", "schema?x=1", None, 400, "bad_request"),
        ("GET", "/graphs", None, 403, None),
    ],
)
def test_one_shape_for_every_mistake(shared, method, path, body, status, kind) -> None:
    headers = {"Content-Type": "application/json"} if isinstance(body, bytes) else {}
    answer = shared.ask(method, path, body, headers=headers)
    assert answer.status == status, answer
    if method != "HEAD":
        assert answer.headers["content-type"] == "application/json"
        assert answer.body["error"]
        assert answer.body["request_id"] == answer.headers["x-request-id"]
        if kind is not None:
            assert answer.body["kind"] == kind
    if status == 405:
        assert answer.headers["allow"]


def test_a_body_of_another_type_is_refused(shared) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", ""):
        headers = {"Content-Type": media} if media else {}
        answer = shared.ask("POST", "query", json.dumps({"query": ALL}).encode(), headers=headers)
        assert (answer.status, answer.body["kind"]) == (415, "unsupported_media_type")


def test_request_ids_come_from_the_client_from_its_trace_or_fresh(shared) -> None:
    def id_of(**headers: str) -> str:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return shared.get("/healthz", headers=given).headers["x-request-id"]

    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    assert id_of(X_Request_Id="mine-1") == "mine-1"
    assert id_of(traceparent=f"00-{trace}-00f067aa0ba902b7-01") == trace
    assert len(id_of()) == 26
    for bad in ("a b", "x" * 129, "<script>"):
        assert len(id_of(X_Request_Id=bad)) == 26


def test_every_route_has_a_handler() -> None:
    application = importlib.import_module("omnigraph.server.application")
    assert {route.operation for route in ROUTES} == set(application.HANDLERS)


# --- nonsense -------------------------------------------------------------------------------------

WORDS = [
    "main",
    "",
    " ",
    "a/b",
    "..",
    "%2e%2e",
    "\x00",
    "é",
    "x" * 300,
    "__schema_apply_lock__",
    "-1",
]
VALUES = [
    None,
    True,
    0,
    -1,
    1e308,
    10**30,
    "",
    "main",
    [],
    {},
    [[]],
    {"a": {"b": 1}},
    "\ud800",
    ALL,
    ADD,
]
HEADERS = (
    *("Accept", "Content-Type", "Range", "If-Match", "If-None-Match", "If-Range", "X-Request-Id"),
    *("Idempotency-Key", "Omnigraph-If-Graph-Commit", "traceparent", "Authorization"),
)


def make_nonsense(random: random.Random):
    """A request that may be anything, to a route there is."""
    route = random.choice(ROUTES)

    def fill(name: re.Match[str]) -> str:
        is_graph = name[1] == "graph_id" and random.random() < 0.95
        return "people" if is_graph else quote(random.choice(WORDS)).replace("/", "%2F")

    path = re.sub(r"\{(\w+)\}", fill, route.path)
    if random.random() < 0.5:
        names = [*(one.name for one in route.parameters), "branch", "x"]
        pairs = [
            f"{random.choice(names)}={quote(random.choice(WORDS))}"
            for _ in range(random.randrange(1, 5))
        ]
        path += "?" + "&".join(pairs)
    headers = {
        random.choice(HEADERS): "".join(
            random.choices(string.printable[:95], k=random.randrange(40))
        )
        for _ in range(random.randrange(3))
    }
    body = None
    if route.method in ("POST", "PUT"):
        if random.random() < 0.3:
            body = random.randbytes(random.randrange(200))
            headers.setdefault("Content-Type", route.body_media)
        else:
            body = json.dumps(_make_members(random, route)).encode()
            headers.setdefault("Content-Type", "application/json")
    return route.method, path, body, headers


def _make_members(random: random.Random, route: RouteSpec) -> dict[str, object]:
    known = [] if route.request is None else msgspec.structs.fields(route.request)
    names = [one.encode_name for one in known if one.required or random.random() < 0.5]
    extra = ["x"] if random.random() < 0.1 else []
    return {name: random.choice(VALUES) for name in [*names, *extra]}


def quote(text: str) -> str:
    from urllib.parse import quote as encode

    return encode(text, safe="%")


def try_nonsense(server, seed: int, count: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    for _ in range(count):
        method, path, body, headers = make_nonsense(chance)
        answer = server.ask(method, path, body, headers=headers)
        what = (method, path, body, headers, answer)
        assert answer.status < 500, what
        if answer.status >= 400 and method != "HEAD":
            assert answer.body["error"], what
        for secret in (b"Traceback", b".omni", b"/tmp", b"site-packages"):
            assert secret not in answer.data, what


def test_nonsense_is_refused_and_nothing_breaks(server) -> None:
    try_nonsense(server, random.randrange(1 << 32), 300)
    assert "Traceback" not in server.log
    assert server.get("snapshot").status == 200


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(8))
def test_much_nonsense_is_refused(server, seed: int) -> None:
    try_nonsense(server, seed, 2_000)
    assert "Traceback" not in server.log


def test_nonsense_for_a_token_opens_nothing_and_is_never_logged(people) -> None:
    chance = random.Random(random.randrange(1 << 32))
    secret = "the-token-of-maria"
    given = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps({"maria": secret})}
    tried = [f"Bearer {secret}x", f"Basic {secret}", f"Bearer {secret} {secret}", "Bearer", secret]
    for _ in range(40):
        text = "".join(chance.choices(string.printable[:95], k=chance.randrange(60)))
        tried.append(f"Bearer tried-{text}".strip())
    with serving(people, flags=(), **given) as server:
        for header in tried:
            for path in ("schema", "/graphs/nothing/schema", "/graphs"):
                answer = server.get(path, headers={"Authorization": header})
                assert (answer.status, answer.body["code"]) == (401, "unauthorized"), header
                assert secret.encode() not in answer.data
        assert server.get("schema", token=secret).status == 200
        assert secret not in server.log
        assert "tried-" not in server.log


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET /%zz%ff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /graphs/people/query HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n",
        b"POST /graphs/people/query HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
)
def test_malformed_http_does_no_harm(shared, sent) -> None:
    with socket.create_connection((shared.host, shared.port), timeout=600) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        said = b""
        try:
            while piece := client.recv(65_536):
                said += piece
        except ConnectionResetError:
            pass
    assert b"500" not in said[:20]
    assert b"Traceback" not in said
    assert shared.get("/healthz").status == 200
