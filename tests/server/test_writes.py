"""Routes that write: commits, conditions, keys."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import omnigraph
from omnigraph.operations.operation_table import ROUTES
from server.route_requests import NOBODY, list_requests
from server.serving import ADD, ALL, serving

NDJSON = {"Content-Type": "application/x-ndjson"}
TOKENS = "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON"


def names(server) -> list[str]:
    return [row["p.name"] for row in server.post("query", {"query": ALL}).body["rows"]]


def test_a_mutation_answers_with_its_commit(server) -> None:
    done = server.post("mutate", {"query": ADD, "params": {"name": "Cy"}}).body
    assert (done["affected_nodes"], done["query_name"], done["actor_id"]) == (1, "add", None)
    assert (
        done["commit"]["graph_commit_id"]
        == server.get("commits").body["commits"][0]["graph_commit_id"]
    )
    nothing = 'query q() { delete Person where name = "nobody" }'
    assert server.post("mutate", {"query": nothing}).body["commit"] is None
    record = json.dumps({"type": "Person", "data": {"name": "Cy"}})
    twice = server.post("load", {"data": record, "mode": "append"})
    assert (twice.status, twice.body["code"]) == (409, "conflict")
    assert twice.body["key_conflict"]["entity_id"] == "Cy"


def test_a_load_finds_edges_by_the_columns_that_are_named(server) -> None:
    record = json.dumps({"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"since": 1998}})
    found = {"data": record, "mode": "merge", "match": ["from", "to"]}
    assert server.post("load", found).status == 200
    (edge,) = server.post("export", {"type_names": ["Knows"]}).lines
    assert (edge["data"]["id"], edge["data"]["since"]) == ("k1", 1998)
    refused = server.post("load", {**found, "mode": "append"})
    assert (refused.status, refused.body["kind"]) == (400, "bad_options")


def test_a_conditional_write_needs_the_head(server) -> None:
    head = server.get("commits").body["commits"][0]["graph_commit_id"]
    body = {"query": ADD, "params": {"name": "Cy"}}
    condition = {"Omnigraph-If-Graph-Commit": head}
    assert server.post("load", {"data": ""}, headers=condition).status == 400
    for bad in ("*", f'"{head}"', f"W/{head}", f"{head},{head}", ""):
        answer = server.post("mutate", body, headers={"Omnigraph-If-Graph-Commit": bad})
        assert answer.status == 400
    assert server.post("mutate", body, headers=condition).status == 200
    body["params"] = {"name": "Di"}
    stale = server.post("mutate", body, headers=condition)
    assert stale.status == 412
    now = server.get("commits").body["commits"][0]["graph_commit_id"]
    known = {"branch": "main", "expected": head, "actual": now}
    assert stale.body["precondition_failure"] == known
    assert (stale.body["code"], stale.body["kind"]) == ("conflict", "precondition_failed")
    assert "Di" not in names(server)


def list_refusals(server, header: str, value: str) -> set[str]:
    """The operations that refuse a request because of a header."""
    given, head = {header: value}, server.get("commits").body["commits"][0]["graph_commit_id"]
    refused = set()
    for operation, asked in list_requests("main", {"main": head}).items():
        answer = server.ask(
            asked.method, asked.path, asked.body, headers={**asked.headers, **given}
        )
        if asked.method == "HEAD":
            is_refused = answer.status == 400
        else:
            is_refused = f"{header} is not for this route".encode() in answer.data
            assert is_refused <= (answer.status == 400)
        refused |= {operation} if is_refused else set()
    return refused


def test_a_condition_is_refused_where_it_would_not_be_checked(server) -> None:
    conditional = {route.operation for route in ROUTES if route.is_conditional}
    assert conditional == {"mutate", "invoke_query"}
    every = {route.operation for route in ROUTES if route.is_of_graph}
    refused = list_refusals(server, "Omnigraph-If-Graph-Commit", NOBODY)
    assert refused == every - conditional


def test_a_key_is_refused_by_writes_that_take_none(server) -> None:
    refused = list_refusals(server, "Idempotency-Key", "k")
    assert refused == {"createTag", "deleteTag", "setConsumer", "deleteConsumer"}
    assert refused == {one.operation for one in ROUTES if one.is_write and not one.takes_key}


def test_a_write_with_a_key_is_committed_once(server) -> None:
    key = {"Idempotency-Key": "add cy/1"}
    body = {"query": ADD, "params": {"name": "Cy"}}
    first = server.post("mutate", body, headers=key)
    again = server.post("mutate", body, headers=key)
    assert again.body == first.body
    assert again.headers["omnigraph-replayed"] == "true"
    assert "omnigraph-replayed" not in first.headers
    found = server.get("writes/add%20cy%2F1").body
    assert (found["operation"], found["commit"]) == ("mutate", first.body["commit"])
    assert found["answer"]["affected_nodes"] == 1
    reused = server.post("mutate", {**body, "params": {"name": "Di"}}, headers=key)
    assert (reused.status, reused.body["kind"]) == (409, "idempotency_key_reused")
    assert server.get("writes/other").body["kind"] == "write_not_found"
    load = {"data": json.dumps({"type": "Person", "data": {"name": "Ed"}}), "mode": "append"}
    answers = [server.post("load", load, headers={"Idempotency-Key": "l"}) for _ in range(2)]
    assert answers[0].body == answers[1].body
    assert answers[0].status == 200
    server.post("branches", {"name": "side"})
    server.post("mutate", {"query": ADD, "params": {"name": "Flo"}, "branch": "side"})
    merge = {"source": "side", "delete_branch": True}
    merges = [server.post("branches/merge", merge, headers={"Idempotency-Key": "m"}) for _ in "12"]
    assert [one.status for one in merges] == [200, 200]
    assert merges[0].body == merges[1].body
    assert names(server) == ["Ada", "Ben", "Cy", "Ed", "Flo"]


def test_a_condition_that_no_longer_holds_is_no_obstacle_for_a_repeated_write(server) -> None:
    head = server.get("commits").body["commits"][0]["graph_commit_id"]
    given = {"Omnigraph-If-Graph-Commit": head, "Idempotency-Key": "k"}
    body = {"query": ADD, "params": {"name": "Cy"}}
    first = server.post("mutate", body, headers=given)
    assert server.post("mutate", body, headers=given).body == first.body


def test_writes_with_one_key_that_race_become_one_commit(server) -> None:
    insert = 'query q($n: I32) { insert Knows { from: "Ada", to: "Ben", since: $n } }'
    barrier = threading.Barrier(8)

    def send(_: int):
        barrier.wait()
        body = {"query": insert, "params": {"n": 1}}
        return server.post("mutate", body, headers={"Idempotency-Key": "race"})

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(8)))
    assert {one.status for one in answers} == {200}
    assert len({one.body["commit"]["graph_commit_id"] for one in answers}) == 1
    assert sum("omnigraph-replayed" not in one.headers for one in answers) == 1
    assert len(server.post("export", {"type_names": ["Knows"]}).lines) == 2


def test_lines_are_loaded_as_they_are(server) -> None:
    node, edge = (
        b'{"type": "Person", "data": {"name": "Cy"}}',
        b'{"edge": "Knows", "from": "Cy", "to": "Ada"}',
    )
    lines = node + b"\n\n" + edge + b"\n"
    done = server.post("load/ndjson?mode=append", lines, headers=NDJSON)
    assert done.status == 200
    assert (done.body["total_entities"], done.body["mode"]) == (2, "append")
    assert done.body["uri"] == f"http://{server.address}{server.graph}"
    head = done.body["commit"]["graph_commit_id"]
    for bad, said in (
        (b'{"type": "Person", "data": {"name": "Di", "name": "Ed"}}', "line 1"),
        (b'{"type": "Person", "data": {"name": "Di"}}\n{"type": "Person", "dat": {}}', "line 2"),
        (b'{"type": "Person", "data": {"name": "Di", "_rowid": 1}}', "_rowid"),
        (b'\xff{"type": "Person"}', "UTF-8"),
    ):
        refused = server.post("load/ndjson", bad, headers=NDJSON)
        assert refused.status == 400, refused
        assert said in refused.body["error"]
    assert server.get("commits").body["commits"][0]["graph_commit_id"] == head
    for media in ({"Content-Type": "application/json"}, {}):
        assert server.post("load/ndjson", lines, headers=media).status == 415
    missing = server.post("load/ndjson?branch=side", lines, headers=NDJSON)
    assert (missing.status, "from" in missing.body["error"]) == (404, True)
    forked = server.post("load/ndjson?branch=side&from=main", lines, headers=NDJSON)
    assert (forked.body["branch_created"], forked.body["base_branch"]) == (True, "main")
    assert server.post("load/ndjson?mode=upsert", lines, headers=NDJSON).status == 400


def test_a_schema_is_applied_as_one_commit_or_refused(server) -> None:
    schema = server.get("schema").body["schema_source"]
    wanted = schema.replace("age: I32?", "age: I32?  nick: String?")
    tried = server.post("schema/apply", {"schema_source": wanted, "dry_run": True}).body
    assert (tried["applied"], tried["commit"], tried["step_count"]) == (False, None, 1)
    done = server.post("schema/apply", {"schema_source": wanted}).body
    assert done["applied"]
    head = server.get("commits").body["commits"][0]["graph_commit_id"]
    assert done["commit"]["graph_commit_id"] == head
    assert server.get("schema").body["schema_source"] == wanted
    add = 'query q() { insert Person { name: "Cy", nick: "c" } }'
    assert server.post("mutate", {"query": add}).status == 200
    assert server.post("schema/apply", {"schema_source": "node {"}).body["kind"] == "compile_error"


def test_an_unauthorized_load_is_refused_before_the_body_is_read(people) -> None:
    with serving(people, flags=(), token="t", **{TOKENS: '{"maria": "t"}'}) as server:
        for path in ("load/ndjson", "load/ndjson?branch=side&from=main"):
            connection = server.connect()
            try:
                connection.putrequest("POST", f"{server.graph}/{path}")
                for name, value in {**NDJSON, "Authorization": "Bearer t"}.items():
                    connection.putheader(name, value)
                connection.putheader("Content-Length", "1000000")
                connection.endheaders()  # and not one byte of the body
                assert connection.getresponse().status == 403
            finally:
                connection.close()


def test_the_actor_is_the_one_of_the_token(people) -> None:
    graph = omnigraph.open(people)
    graph.close()
    with serving(people) as server:
        spoofed = {"X-Actor": "mallory", "Omnigraph-Actor": "mallory"}
        body = {"query": ADD, "params": {"name": "Cy"}}
        assert server.post("mutate", {**body, "actor": "mallory"}).status == 400
        done = server.post("mutate", body, headers=spoofed)
        assert done.body["commit"]["actor_id"] is None


def test_bodies_that_are_too_large_are_refused_by_their_header_and_while_they_come(people) -> None:
    with serving(people, OMNIGRAPH_SERVER_LOAD_MIB="1") as server:
        large = b"x" * ((1 << 20) + 1)
        declared = server.post("load/ndjson", large, headers=NDJSON)
        assert declared.status == 413
        limit = {"resource": "graph_batch_request_bytes", "limit": 1 << 20, "actual": len(large)}
        assert declared.body["resource_limit"] == limit
        connection = server.connect()
        try:
            pieces = (b"x" * 65_536 for _ in range(32))
            connection.request(
                "POST", f"{server.graph}/load/ndjson", pieces, NDJSON, encode_chunked=True
            )
            assert connection.getresponse().status == 413
        finally:
            connection.close()
        query = server.post("query", {"query": "x" * (1 << 20)})
        assert (query.status, query.body["code"]) == (413, "bad_request")
