"""Stored queries over HTTP: listed and run by name, for those who may."""

import json
import signal

import pytest

from omnigraph.errors import BadRequest
from omnigraph.server.serving_config import ServeFlags, read_options
from server.serving import serving
from server.test_policy_over_http import is_denied, token_of, wait_until

QUERIES = """
query older($than: I32) @description("by age") {
  match { $p: Person  $p.age > $than } return { $p.name } order { $p.name }
}
query add($name: String) { insert Person { name: $name } }
query secret() { match { $p: Person } return { $p.age } }
"""
RULES = """
version: 1
groups: { admins: [maria], agents: [bot], readers: [side] }
protected_branches: [main]
rules:
  - id: admins
    allow: { actors: { group: admins }, actions: [read, change] }
  - id: admins-run
    allow: { actors: { group: admins }, actions: [invoke_query] }
  - id: agents
    allow: { actors: { group: agents }, actions: [read] }
  - id: agents-run
    allow: { actors: { group: agents }, actions: [invoke_query], queries: [older, add] }
  - id: readers
    allow: { actors: { group: readers }, actions: [read] }
"""
TOKENS = json.dumps({actor: f"token-of-{actor}" for actor in ("maria", "bot", "side")})


@pytest.fixture
def served(people, tmp_path):
    (tmp_path / "queries").mkdir()
    (tmp_path / "queries" / "people.gq").write_text(QUERIES)
    (tmp_path / "p.yaml").write_text(RULES)
    flags = ("--policy", str(tmp_path / "p.yaml"), "--queries", str(tmp_path / "queries"))
    given = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": TOKENS}
    with serving(people, flags=flags, **given) as server:
        yield server


def test_a_read_and_a_mutation_are_run_by_name(served) -> None:
    maria = token_of("maria")
    found = served.post("queries/older", {"params": {"than": 30}}, **maria)
    assert found.status == 200
    assert found.body["rows"] == [{"p.name": "Ada"}]
    assert found.body["query_name"] == "older"
    lines = {"Accept": "application/x-ndjson"}
    streamed = served.post("queries/older", {"params": {"than": 30}}, headers=lines, **maria)
    assert streamed.lines == [{"p.name": "Ada"}]
    for body in (b"", b"null"):
        media = {"Content-Type": "application/json"}
        empty = served.ask("POST", "queries/secret", body, headers=media, **maria)
        assert empty.body["row_count"] == 2
    add = {"params": {"name": "Cy"}, "expect_mutation": True}
    key = {"Idempotency-Key": "once"}
    done = served.post("queries/add", add, headers=key, **maria)
    assert done.body["commit"]["actor_id"] == "maria"
    again = served.post("queries/add", add, headers=key, **maria)
    assert again.headers["omnigraph-replayed"] == "true"
    stale = {"Omnigraph-If-Graph-Commit": found.body["graph_commit_id"]}
    late = served.post("queries/add", add, headers=stale, **maria)
    assert late.status == 412


def test_a_query_that_may_not_be_run_is_as_one_that_does_not_exist(served) -> None:
    for actor, denied in (("bot", "secret"), ("side", "older"), ("side", "add")):
        unknown = "x" * len(denied)
        given = {"headers": {"X-Request-Id": "same"}, **token_of(actor)}
        forbidden = served.post(f"queries/{denied}", {}, **given)
        missing = served.post(f"queries/{unknown}", {}, **given)
        assert forbidden.status == missing.status == 404
        assert forbidden.data.decode().replace(denied, unknown) == missing.data.decode()
        same = {"date": ""}
        assert {**forbidden.headers, **same} == {**missing.headers, **same}


def test_the_list_has_what_the_actor_may_run(served) -> None:
    listed = {
        actor: [one["name"] for one in served.get("queries", **token_of(actor)).body["queries"]]
        for actor in ("maria", "bot", "side")
    }
    assert listed == {"maria": ["add", "older", "secret"], "bot": ["add", "older"], "side": []}


def test_running_a_query_takes_the_right_to_do_what_it_does(served) -> None:
    assert served.post("queries/older", {"params": {"than": 1}}, **token_of("bot")).status == 200
    add = {"params": {"name": "Cy"}}
    assert is_denied(served.post("queries/add", add, **token_of("bot")), "change")


def test_a_request_that_does_not_go_with_the_kind_of_a_query_is_refused(served) -> None:
    maria = token_of("maria")
    head = served.get("commits", **maria).body["commits"][0]["graph_commit_id"]
    condition = {"Omnigraph-If-Graph-Commit": head}
    older, add = {"params": {"than": 1}}, {"params": {"name": "Cy"}}
    for answer in (
        served.post("queries/older", {**older, "expect_mutation": True}, **maria),
        served.post("queries/add", {**add, "expect_mutation": False}, **maria),
        served.post("queries/add", {**add, "snapshot": head}, **maria),
        served.post("queries/older", older, headers=condition, **maria),
        served.post("queries/older", {"params": {"than": "x"}}, **maria),
    ):
        assert answer.status == 400
    assert len(served.get("commits", **maria).body["commits"]) == 2


def test_a_schema_that_would_break_a_stored_query_is_refused_without_its_folder(
    people, tmp_path
) -> None:
    (tmp_path / "q.gq").write_text(QUERIES)
    flags = ("--unauthenticated", "--queries", f"{tmp_path / 'q.gq'}=people")
    with serving(people, flags=flags) as server:
        schema = server.get("schema").body["schema_source"].replace("age: I32?", "")
        body = {"schema_source": schema, "allow_data_loss": True}
        refused = server.post("schema/apply", body)
        assert (refused.status, refused.body["kind"]) == (409, "schema_breaks_queries")
        assert " q.gq:3:" in refused.body["error"]
        assert str(tmp_path).encode() not in refused.data


def test_a_graph_whose_queries_do_not_fit_is_quarantined_until_they_do(people, tmp_path) -> None:
    file = tmp_path / "q.gq"
    file.write_text("query q() { match { $p: Person } return { $p.salary } }")
    other = f"{people}=other"
    flags = ("--unauthenticated", "--queries", f"{file}=people")
    with serving(people, other, flags=flags) as server:
        assert server.get("/graphs/other/queries").body == {"queries": []}
        assert server.get("queries").status == 404
        file.write_text(QUERIES)
        server.signal(signal.SIGHUP)
        wait_until(lambda: server.get("queries").status == 200)
        file.write_text("query q( {")
        server.signal(signal.SIGHUP)
        wait_until(lambda: "reload refused" in server.log)
        assert server.post("queries/older", {"params": {"than": 1}}).status == 200


def test_queries_for_a_graph_that_is_not_served_are_refused() -> None:
    with pytest.raises(BadRequest, match="graph 'other', which is not served"):
        read_options(ServeFlags(stores=("x/people.omni",), queries=("q=other",)), {})
