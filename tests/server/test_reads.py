"""Routes that read, over a real socket."""

import io
import json

import pyarrow as pa
import pytest

import omnigraph
from server.serving import ADD, ALL

ARROW = "application/vnd.apache.arrow.stream"


def test_rows_come_as_one_document(shared) -> None:
    answer = shared.post("query", {"query": ALL})
    assert answer.status == 200
    assert answer.body["rows"] == [{"p.name": "Ada", "p.age": 36}, {"p.name": "Ben", "p.age": None}]
    assert answer.body["columns"] == ["p.name", "p.age"]
    assert answer.body["target"] == {"branch": "main", "snapshot": None}
    assert (
        answer.body["graph_commit_id"]
        == shared.get("commits").body["commits"][0]["graph_commit_id"]
    )


def test_rows_come_as_lines_and_as_arrow_by_what_is_accepted(shared) -> None:
    document = shared.post("query", {"query": ALL}).body
    lines = shared.post("query", {"query": ALL}, headers={"Accept": "application/x-ndjson"})
    assert lines.headers["content-type"].startswith("application/x-ndjson")
    assert lines.lines == document["rows"]
    streamed = shared.post("query", {"query": ALL}, headers={"Accept": f"{ARROW}, */*;q=0.1"})
    table = pa.ipc.open_stream(io.BytesIO(streamed.data)).read_all()
    assert table.to_pylist() == document["rows"]
    for answer in (lines, streamed):
        assert answer.headers["omnigraph-commit-id"] == document["graph_commit_id"]
        assert answer.headers["omnigraph-query-name"] == "all"


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "image/*, text/csv"])
def test_a_format_there_is_not_is_refused(shared, accept) -> None:
    answer = shared.post("query", {"query": ALL}, headers={"Accept": accept})
    assert answer.status == 406
    assert answer.body["kind"] == "not_acceptable"


def test_a_query_without_rows_has_a_schema_in_every_format(shared) -> None:
    none = 'query q() { match { $p: Person  $p.name = "nobody" } return { $p.age } }'
    assert shared.post("query", {"query": none}).body["rows"] == []
    assert (
        shared.post("query", {"query": none}, headers={"Accept": "application/x-ndjson"}).data
        == b""
    )
    streamed = shared.post("query", {"query": none}, headers={"Accept": ARROW})
    assert pa.ipc.open_stream(io.BytesIO(streamed.data)).read_all().schema.names == ["p.age"]


def test_mistakes_in_a_query_are_reported_with_their_position(shared) -> None:
    answer = shared.post("query", {"query": "query q() { match { $p: Persn } return { $p.name } }"})
    assert answer.status == 400
    assert answer.body["kind"] == "compile_error"
    assert answer.body["diagnostics"][0]["line"] == 1
    mutation = shared.post("query", {"query": ADD, "params": {"name": "x"}})
    assert (mutation.status, mutation.body["code"]) == (400, "bad_request")
    unknown = shared.post("query", {"query": ALL, "params": {"nam": 1}})
    assert unknown.body["kind"] == "parameter_error"


def test_a_snapshot_is_read_by_a_commit_id(server) -> None:
    before = server.get("commits").body["commits"][0]["graph_commit_id"]
    assert server.post("mutate", {"query": ADD, "params": {"name": "Cy"}}).status == 200
    assert server.post("query", {"query": ALL}).body["row_count"] == 3
    old = server.post("query", {"query": ALL, "snapshot": before}).body
    assert (old["row_count"], old["target"]) == (2, {"branch": None, "snapshot": before})
    both = server.post("query", {"query": ALL, "snapshot": before, "branch": "main"})
    assert both.status == 400


def test_snapshot_and_schema_show_the_branch(shared) -> None:
    snapshot = shared.get("snapshot?branch=main").body
    counts = {table["table_key"]: table["entity_count"] for table in snapshot["tables"]}
    assert counts == {"edge:Knows": 1, "node:Person": 2}
    assert shared.get("snapshot?branch=nosuch").status == 404
    assert "node Person" in shared.get("schema").body["schema_source"]


def test_commits_come_in_pages_that_show_one_state(server) -> None:
    for name in "abcd":
        server.post("mutate", {"query": ADD, "params": {"name": name}})
    whole = [one["graph_commit_id"] for one in server.get("commits").body["commits"]]
    paged, token = [], ""
    while token is not None:
        page = server.get(f"commits?limit=2{token}").body
        paged += [one["graph_commit_id"] for one in page["commits"]]
        assert len(page["commits"]) <= 2
        server.post("mutate", {"query": ADD, "params": {"name": f"later-{len(paged)}"}})
        token = f"&page_token={page['next_page_token']}" if "next_page_token" in page else None
    assert paged == whole
    for bad in ("page_token=x", "page_token=", "limit=0", "limit=-1", "limit=x"):
        assert server.get(f"commits?{bad}").status == 400
    assert server.get("commits?limit=99999999").status == 413


def test_a_branch_with_a_slash_goes_through_every_route(server) -> None:
    name, encoded = "review/2026-04", "review%2F2026-04"
    made = server.post("branches", {"name": name})
    assert (made.status, made.body["name"], made.body["from"]) == (200, name, "main")
    assert made.body["uri"] == f"http://{server.address}/graphs/people"
    assert server.post("branches", {"name": name}).status == 409
    assert server.post("branches", {"name": "merge"}).status == 200
    body = {"query": ADD, "params": {"name": "Cy"}, "branch": f" {name} "}
    assert server.post("mutate", body).body["branch"] == name
    listed = server.get(f"commits?branch={encoded}").body["commits"]
    assert listed[0]["graph_branch"] == name
    feed = server.get(f"changes?branch={encoded}&start=beginning").body
    assert feed["blocks"][-1]["cause"]["authored_branch"] == name
    merged = server.post("branches/merge", {"source": name, "delete_branch": True}).body
    assert (merged["outcome"], merged["branch_deleted"]) == ("fast_forward", True)
    assert merged["commit"]["graph_branch"] == "main"
    assert server.ask("DELETE", f"branches/{encoded}").status == 404
    assert server.ask("DELETE", "branches/merge").body["name"] == "merge"
    assert server.get("branches").body == {"branches": ["main"]}


def test_branches_come_in_pages(server) -> None:
    for name in ("b", "a", "c/d"):
        server.post("branches", {"name": name})
    first = server.get("branches?limit=3").body
    assert first["branches"] == ["a", "b", "c/d"]
    rest = server.get(f"branches?limit=3&page_token={first['next_page_token']}").body
    assert rest == {"branches": ["main"]}


def test_the_feed_gives_cursors_only_where_a_commit_is_whole(server) -> None:
    records = [{"type": "Person", "data": {"name": f"p{n}"}} for n in range(5)]
    data = "\n".join(json.dumps(record) for record in records)
    assert server.post("load", {"data": data}).status == 200
    seen, query = [], "start=beginning&limit=2"
    while True:
        page = server.get(f"changes?{query}").body
        seen += [c["id"] for block in page["blocks"] for c in block["changes"]]
        assert ("cursor" in page) != ("next_page_token" in page)
        if page.get("caught_up"):
            break
        way = "cursor" if "cursor" in page else "page_token"
        query = f"limit=2&{way}={page.get('cursor') or page['next_page_token']}"
    assert seen == ["Ada", "Ben", "k1", "p0", "p1", "p2", "p3", "p4"]
    other = server.get(f"changes?cursor={page['cursor']}&type=Person")
    assert other.status == 400
    assert other.body["error"].startswith("change cursor rejected: ")
    for bad in ("start=now&cursor=x", "strt=now", "start=now&start=now", "limit=0", "op=upsert"):
        assert server.get(f"changes?{bad}").status == 400
    assert server.get("changes?limit=8193").status == 413
    commit = server.get("commits").body["commits"][0]["graph_commit_id"]
    changes = server.get(f"commits/{commit}/changes?kind=node&op=insert").body
    assert [one["id"] for one in changes["changes"]] == ["p0", "p1", "p2", "p3", "p4"]
    genesis = server.get("commits").body["commits"][-1]["graph_commit_id"]
    refused = server.get(f"commits/{genesis}/changes")
    assert (refused.status, "change_diff_refusal" in refused.body) == (409, True)
    for path in (
        f"commits/{'0' * 26}",
        f"commits/{'0' * 26}/changes",
        "commits/x",
        "commits/x/changes",
    ):
        assert server.get(path).status == 404


def test_an_export_loads_again_and_a_baseline_ends_with_its_cursor(shared, tmp_path) -> None:
    exported = shared.post("export")
    assert exported.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    copy = omnigraph.init(tmp_path / "copy.omni", shared.get("schema").body["schema_source"])
    copy.load(exported.data, "append")
    assert len(copy.nodes("Person")) == 2
    only = shared.post("export", {"type_names": ["Knows"]}).lines
    assert only == [
        {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1", "since": None}}
    ]
    baseline = shared.post("changes/baseline", {"kind": ["node"]}).lines
    assert [next(iter(record)) for record in baseline] == ["type", "type", "baseline"]
    cursor = baseline[-1]["baseline"]["resume_cursor"]
    page = shared.get(f"changes?kind=node&cursor={cursor}").body
    assert (page["blocks"], page["caught_up"]) == ([], True)
    wrong = shared.post("export", {"type_names": ["Nobody"]})
    assert wrong.status in (400, 404)
    assert shared.post("export", {"branch": "  "}).status == 400
    assert shared.post("export", {"branches": "main"}).status == 400
