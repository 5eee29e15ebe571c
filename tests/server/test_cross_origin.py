"""Web pages of other origins: which may read answers, and the headers they get."""

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.serving_config import ServeFlags, read_options
from server.serving import ALL, serving

PAGE = "https://app.example.org"
ALLOWED = "access-control-allow-origin"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    from server.conftest import make_people

    people = make_people(tmp_path_factory.mktemp("pages") / "people.omni")
    flags = ("--cors-origin", PAGE, "--cors-origin", "http://localhost:3000")
    tokens = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"maria": "t"}'}
    with serving(people, flags=flags, token="t", **tokens) as server:
        yield server


def ask_before(server, origin: str, method: str = "POST", headers: str = "authorization"):
    """Send the preflight request of a browser."""
    given = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers}
    return server.ask("OPTIONS", "query", headers={"Origin": origin, **given}, token="")


@pytest.mark.parametrize("origin", [PAGE, "http://localhost:3000"])
def test_a_page_of_a_named_origin_reads_answers_and_failures(served, origin: str) -> None:
    sent = "authorization, content-type, idempotency-key, omnigraph-if-graph-commit"
    before = ask_before(served, origin, headers=sent)
    assert (before.status, before.headers[ALLOWED]) == (200, origin)
    assert "PUT" in before.headers["access-control-allow-methods"]
    assert "access-control-allow-credentials" not in before.headers
    page = {"Origin": origin}
    for answer, status in (
        (served.post("query", {"query": ALL}, headers=page), 200),
        (served.post("query", {"query": "query {"}, headers=page), 400),
        (served.post("query", {"query": ALL}, headers=page, token="wrong"), 401),
        (served.get("/nothing", headers=page), 404),
    ):
        assert (answer.status, answer.headers[ALLOWED]) == (status, origin)
        assert "Origin" in answer.headers["vary"]
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        assert {"X-Request-Id", "WWW-Authenticate"} <= set(exposed)
        assert all(len(name) > 1 for name in exposed)


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example.org", "null", "http://app.example.org", f"{PAGE}.evil.org", "*"],
)
def test_a_page_of_any_other_origin_reads_nothing(served, origin: str) -> None:
    assert ask_before(served, origin).status == 400
    for answer in (ask_before(served, origin), served.get("schema", headers={"Origin": origin})):
        assert ALLOWED not in answer.headers


def test_headers_that_no_page_needs_are_not_allowed(served) -> None:
    assert ask_before(served, PAGE, method="PATCH").status == 400
    assert ask_before(served, PAGE, headers="cookie").status == 400


def test_without_the_flag_no_page_reads_anything(shared) -> None:
    assert ask_before(shared, PAGE).status == 405
    assert ALLOWED not in shared.get("schema", headers={"Origin": PAGE}).headers


@pytest.mark.parametrize(
    "text",
    [
        *("*", "null", "app.example.org", "https://", "https://a b", "ftp://a.org"),
        *("https://a.org/", "https://a.org/x", "https://*.a.org", "https://u@a.org"),
        *("https://a.org:x", "https://a.org,", "https://a.org https://b.org"),
    ],
)
def test_only_whole_origins_are_accepted(text: str) -> None:
    with pytest.raises(BadRequest, match="OMNIGRAPH_CORS_ORIGINS"):
        read_options(ServeFlags(stores=("x",), settings={"cors_origins": text}), {})


def test_origins_are_compared_as_browsers_write_them() -> None:
    given = {"cors_origins": "https://App.example.org:443,http://[::1]:3000"}
    options = read_options(ServeFlags(stores=("x",), settings=given), {})
    assert options.server.cors_origins == (PAGE, "http://[::1]:3000")
