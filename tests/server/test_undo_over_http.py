"""Reverting, picking and restoring commits over HTTP, and writes that are made once."""

import pytest

import omnigraph
from server.serving import ADD, ALL, SCHEMA


def names(server, branch: str = "main") -> list[str]:
    rows = server.post("query", {"query": ALL, "branch": branch}).body["rows"]
    return [row["p.name"] for row in rows]


def add(server, name: str, branch: str = "main") -> str:
    made = server.post("mutate", {"query": ADD, "params": {"name": name}, "branch": branch})
    return made.body["commit"]["graph_commit_id"]


def test_a_commit_is_reverted_and_picked_as_a_new_commit(server) -> None:
    cy, di = add(server, "Cy"), add(server, "Di")
    tried = server.post("revert", {"commit": cy, "dry_run": True}).body
    assert (tried["outcome"], tried["commit"], tried["dry_run"]) == ("reverted", None, True)
    done = server.post("revert", {"commit": cy, "expected_head": di, "message": "no Cy"})
    assert (done.status, done.body["outcome"]) == (200, "reverted")
    assert done.body["commit"]["details"]["message"] == "no Cy"
    assert names(server) == ["Ada", "Ben", "Di"]
    again = server.post("cherry-pick", {"commit": cy}).body
    assert (again["outcome"], again["applied_commit_id"]) == ("cherry_picked", cy)
    assert names(server) == ["Ada", "Ben", "Cy", "Di"]


def test_a_branch_is_set_to_what_it_was_at_a_tag(server) -> None:
    server.post("tags", {"name": "before"})
    add(server, "Cy")
    done = server.post("restore", {"revision": "before"}).body
    assert (done["outcome"], done["commit"]["graph_branch"]) == ("restored", "main")
    assert names(server) == ["Ada", "Ben"]
    unchanged = server.post("restore", {"revision": "main"}).body
    assert (unchanged["outcome"], unchanged["commit"]) == ("unchanged", None)


def test_a_contradiction_is_reported_and_decided(server) -> None:
    change = 'query q($a: I32) { update Person set { age: $a } where name = "Ada" }'
    first = server.post("mutate", {"query": change, "params": {"a": 1}}).body["commit"]
    server.post("mutate", {"query": change, "params": {"a": 2}})
    commit = {"commit": first["graph_commit_id"]}
    refused = server.post("revert", commit)
    assert (refused.status, refused.body["kind"]) == (409, "merge_conflicts")
    assert refused.body["merge_conflicts"][0]["entity_id"] == "Ada"
    tried = server.post("revert", {**commit, "dry_run": True}).body
    decided = [{**one, "take": "source"} for one in tried["conflicts"]]
    assert server.post("revert", {**commit, "decisions": decided}).status == 200
    ages = {
        row["p.name"]: row["p.age"] for row in server.post("query", {"query": ALL}).body["rows"]
    }
    assert ages["Ada"] == 36


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("revert", {"commit": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 404),
        ("revert", {"commit": "nothing"}, 404),
        ("revert", {"commit": "main", "parent": 7}, 400),
        ("cherry-pick", {"commit": "main", "branch": "nowhere"}, 404),
        ("restore", {"revision": "1999-01-01T00:00:00Z"}, 400),
        ("restore", {"revision": "1", "expected_head": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, 412),
    ],
)
def test_an_impossible_undo_is_refused(shared, path: str, body: dict, status: int) -> None:
    assert shared.post(path, body).status == status


def test_undoing_with_a_key_is_done_once(server) -> None:
    cy = add(server, "Cy")
    keyed = {"Idempotency-Key": "undo-1"}
    first = server.post("revert", {"commit": cy}, headers=keyed)
    assert "omnigraph-replayed" not in first.headers
    add(server, "Cy")
    again = server.post("revert", {"commit": cy}, headers=keyed)
    assert again.headers["omnigraph-replayed"] == "true"
    assert again.body == first.body
    assert names(server) == ["Ada", "Ben", "Cy"]
    found = server.get("writes/undo-1").body
    assert (found["operation"], found["commit"]) == ("revert", first.body["commit"])
    other = server.post("revert", {"commit": "main"}, headers=keyed)
    assert (other.status, other.body["kind"]) == (409, "idempotency_key_reused")


def test_a_schema_with_a_key_is_applied_once(server, people) -> None:
    keyed = {"Idempotency-Key": "wider"}
    wider = {"schema_source": SCHEMA.replace("age: I32?", "age: I32?  nick: String?")}
    first = server.post("schema/apply", wider, headers=keyed)
    narrower = {"schema_source": SCHEMA, "allow_data_loss": True}
    assert server.post("schema/apply", narrower).body["applied"]
    again = server.post("schema/apply", wider, headers=keyed)
    assert again.headers["omnigraph-replayed"] == "true"
    assert again.body == first.body
    assert "nick" not in server.get("schema").body["schema_source"]
    graph = omnigraph.open(people)
    done = graph.apply_schema(wider["schema_source"], idempotency_key="wider")
    assert done.is_replayed
    assert [step.describe() for step in done.steps] == ["add property Person.nick: String?"]
