"""Tags, consumers and names of branches over HTTP."""

from urllib.parse import quote

from server.serving import ADD


def test_a_tag_is_created_read_and_deleted(server) -> None:
    head = server.get("commits").body["commits"][0]["graph_commit_id"]
    made = server.post("tags", {"name": "release/1"})
    assert (made.status, made.body["graph_commit_id"]) == (200, head)
    server.post("mutate", {"query": ADD, "params": {"name": "Cy"}})
    assert server.post("tags", {"name": "first", "at": head}).body["graph_commit_id"] == head
    twice = server.post("tags", {"name": "release/1"})
    assert (twice.status, twice.body["kind"]) == (409, "already_exists")
    page = server.get("tags?limit=1").body
    assert [tag["name"] for tag in page["tags"]] == ["first"]
    rest = server.get(f"tags?page_token={page['next_page_token']}").body
    assert [tag["name"] for tag in rest["tags"]] == ["release/1"]
    assert "next_page_token" not in rest
    then = server.get("snapshot?at=tag:release/1").body
    assert then["graph_commit_id"] == head
    tag = quote("release/1", safe="")
    assert server.ask("DELETE", f"tags/{tag}").body["name"] == "release/1"
    assert server.ask("DELETE", f"tags/{tag}").status == 404


def test_a_consumer_is_set_listed_and_deleted(server) -> None:
    page = server.get("changes?start=beginning").body
    made = server.ask("PUT", "consumers/index", {"position": page["cursor"], "lasts_seconds": 60})
    head = server.get("commits").body["commits"][0]["graph_commit_id"]
    assert (made.status, made.body["graph_commit_id"]) == (200, head)
    assert server.ask("PUT", "consumers/index").status == 200
    assert [one["name"] for one in server.get("consumers").body["consumers"]] == ["index"]
    for seconds in (0, -1, 1e12):
        assert server.ask("PUT", "consumers/index", {"lasts_seconds": seconds}).status == 400
    assert server.ask("DELETE", "consumers/index").body["name"] == "index"
    assert server.ask("DELETE", "consumers/index").status == 404
    assert server.get("consumers").body["consumers"] == []


def test_a_branch_is_renamed_and_created_from_a_commit(server) -> None:
    first = server.get("commits").body["commits"][-1]["graph_commit_id"]
    made = server.post("branches", {"name": "past", "commit": first})
    assert (made.status, made.body["from"]) == (200, "main")
    assert server.get("commits?branch=past").body["commits"][0]["graph_commit_id"] == first
    renamed = server.post("branches/rename", {"name": "past", "new_name": "a/b"})
    assert (renamed.status, renamed.body["name"]) == (200, "a/b")
    assert renamed.body["renamed_from"] == "past"
    assert server.get("branches").body["branches"] == ["a/b", "main"]
    assert server.post("branches/rename", {"name": "past", "new_name": "c"}).status == 404
    assert server.post("branches/rename", {"name": "main", "new_name": "c"}).status == 400
    assert server.post("branches", {"name": "rename"}).status == 200
    assert server.ask("DELETE", "branches/rename").status == 200


def test_requests_about_branches_with_a_key_are_carried_out_once(server) -> None:
    create, delete = {"Idempotency-Key": "c"}, {"Idempotency-Key": "d"}
    first = server.post("branches", {"name": "side"}, headers=create)
    again = server.post("branches", {"name": "side"}, headers=create)
    assert "omnigraph-replayed" not in first.headers
    assert (again.headers["omnigraph-replayed"], again.body) == ("true", first.body)
    assert server.ask("DELETE", "branches/side", headers=delete).status == 200
    server.post("branches", {"name": "side"})
    gone = server.ask("DELETE", "branches/side", headers=delete)
    assert (gone.status, gone.headers["omnigraph-replayed"]) == (200, "true")
    assert server.get("branches").body["branches"] == ["main", "side"]
    found = server.get("writes/c").body
    assert (found["operation"], found["commit"]) == ("create_branch", None)
    other = server.post("branches", {"name": "other"}, headers=create)
    assert (other.status, other.body["kind"]) == (409, "idempotency_key_reused")
