"""Differences, the history of an entity, plans, and rows of a type over HTTP."""

import io

import msgspec
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.wire.write_results import LoadResult
from server.serving import ADD, ALL


def test_a_difference_is_counted_or_comes_as_lines(server, people) -> None:
    head = server.get("commits").body["commits"][0]["graph_commit_id"]
    server.post("branches", {"name": "side"})
    server.post("mutate", {"query": ADD, "params": {"name": "Cy"}, "branch": "side"})
    counted = server.get(f"diff?before={head}&after=side").body
    assert [(one["type_name"], one["inserted"]) for one in counted["stats"]] == [("Person", 1)]
    lines = {"Accept": "application/x-ndjson"}
    found = server.get(f"diff?before={head}&after=side&images=true", headers=lines)
    expected = omnigraph.open(people).diff(head, "side", images=True)
    assert found.lines == [change.wire() for change in expected]
    assert server.get("diff?before=main&after=main", headers=lines).lines == []
    assert server.get("diff?before=side&type=Knows", headers=lines).lines == []
    for query, status in [
        ("before=nowhere", 404),
        ("after=main", 400),
        ("before=main&type=X", 404),
    ]:
        assert server.get(f"diff?{query}").status == status, query


def test_the_changes_of_one_type_come_as_arrow(server) -> None:
    server.post("mutate", {"query": ADD, "params": {"name": "Cy"}})
    arrow = {"Accept": "application/vnd.apache.arrow.stream"}
    where = "diff?before=2&after=main&images=true"
    found = server.get(f"{where}&kind=node&type=Person", headers=arrow)
    table = pa.ipc.open_stream(io.BytesIO(found.data)).read_all()
    assert table.select(["id", "op", "before"]).to_pylist() == [
        {"id": "Cy", "op": "insert", "before": None}
    ]
    assert table["after"][0]["name"].as_py() == "Cy"
    nothing = server.get(f"{where}&kind=edge&type=Knows", headers=arrow)
    assert pa.ipc.open_stream(io.BytesIO(nothing.data)).read_all().num_rows == 0
    for some in ("", "&type=Person", "&kind=node&type=Person&type=Knows"):
        refused = server.get(f"{where}{some}", headers=arrow)
        assert (refused.status, "one type and its kind" in refused.body["error"]) == (400, True)


def test_queries_are_checked_by_the_name_that_is_given(shared) -> None:
    text = "query q() { match { $p: Persn } return { $p.name } }"
    found = shared.post("lint", {"queries": text, "name": "my.gq"}).body
    assert (found["status"], found["query_path"], found["errors"]) == ("error", "my.gq", 1)
    assert "at my.gq:1:" in found["results"][0]["error"]
    assert shared.post("lint", {"queries": text, "branch": "nowhere"}).status == 404


def test_an_entity_is_shown_with_all_it_was(server) -> None:
    change = 'query q() { update Person set { age: 37 } where name = "Ada" }'
    commit = server.post("mutate", {"query": change}).body["commit"]
    found = server.get("history?type=Person&id=Ada").body
    assert [(one["op"], one["image"]["properties"]["age"]) for one in found["versions"]] == [
        ("update", 37),
        ("insert", 36),
    ]
    assert found["versions"][0]["cause"]["graph_commit_id"] == commit["graph_commit_id"]
    assert found["complete"] is True
    assert server.get("history?type=Nothing&id=Ada").status == 404
    assert server.get("history?type=Person").status == 400


def test_a_revision_resolves_to_its_snapshot(server) -> None:
    before = server.get("snapshot?at=main").body["snapshot_id"]
    server.post("mutate", {"query": ADD, "params": {"name": "Cy"}})
    server.post("mutate", {"query": ADD, "params": {"name": "Di"}})
    rows = server.post("query", {"query": ALL, "snapshot": before}).body["rows"]
    assert [row["p.name"] for row in rows] == ["Ada", "Ben"]
    exported = server.post("export", {"snapshot": before, "type_names": ["Person"]}).lines
    assert sorted(one["data"]["name"] for one in exported) == ["Ada", "Ben"]
    assert "Person" in server.get(f"schema?snapshot={before}").body["schema_source"]
    assert server.get("snapshot?at=nowhere").status == 404
    assert server.post("export", {"snapshot": before, "branch": "main"}).status == 400


@pytest.mark.parametrize(("entity", "name", "count"), [("node", "Person", 2), ("edge", "Knows", 1)])
def test_all_rows_of_a_type_come_as_arrow(shared, entity: str, name: str, count: int) -> None:
    found = shared.get(f"rows?entity={entity}&type={name}")
    assert found.status == 200
    table = pa.ipc.open_stream(io.BytesIO(found.data)).read_all()
    head = shared.get("snapshot").body["graph_commit_id"]
    assert (table.num_rows, found.headers["omnigraph-commit-id"]) == (count, head)
    if entity == "node":
        photos = dict(zip(table["name"].to_pylist(), table["photo"].to_pylist(), strict=True))
        assert photos["Ada"]["data"] == b"pixels"


def test_rows_of_what_is_not_there_are_refused(shared) -> None:
    assert shared.get("rows?entity=node&type=Nothing").status == 404
    assert shared.get("rows?entity=node&type=Person&branch=nowhere").status == 404
    unwanted = {"Accept": "text/html"}
    assert shared.get("rows?entity=node&type=Person", headers=unwanted).status == 406


def test_a_load_may_be_partial_conditional_and_of_nothing(server) -> None:
    head = server.get("snapshot").body["graph_commit_id"]
    line = '{"type": "Person", "data": {"name": "Ada"}}'
    stale = {"data": line, "expected_head": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
    assert server.post("load", stale).status == 412
    kept = server.post("load", {"data": line, "partial": True, "expected_head": head})
    msgspec.convert(kept.body, LoadResult)
    assert kept.status == 200
    ages = [row["p.age"] for row in server.post("query", {"query": ALL}).body["rows"]]
    assert ages == [36, None], "what the record leaves out stays"
    nothing = server.post("load", {"data": ""})
    assert (nothing.status, nothing.body["commit"]) == (200, None)
    msgspec.convert(nothing.body, LoadResult)
    lines = {"Content-Type": "application/x-ndjson"}
    refused = server.ask("POST", f"load/ndjson?expected_head={head}", line.encode(), headers=lines)
    assert refused.status == 412


def test_a_query_is_explained(shared) -> None:
    planned = shared.post("explain", {"query": ALL}).body
    assert "Scan" in planned["text"]
    assert planned["plan"]["kind"] == "read"
    run = shared.post("explain", {"query": ALL, "analyze": True}).body
    assert "rows" in run["text"]
    assert "plan" not in run
    assert shared.post("explain", {"query": "query q() {"}).status == 400


def test_a_schema_is_planned_without_being_applied(shared) -> None:
    source = shared.get("schema").body["schema_source"]
    wider = source.replace("age: I32?", "age: I32?  nick: String?")
    plan = shared.post("schema/plan", {"schema_source": wider}).body
    assert (plan["supported"], [step["kind"] for step in plan["steps"]]) == (True, ["add_property"])
    assert shared.get("schema").body["schema_source"] == source
