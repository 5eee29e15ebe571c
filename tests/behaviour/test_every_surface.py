"""The actions of a user give the same result through every surface."""

import json
from pathlib import Path

import pytest

from behaviour.entry_points import DIRECT, SURFACES
from behaviour.library_surfaces import Refused

SCHEMA = """\
node Artist { slug: String @key  name: String  born: I32?  @range(born, 1900..2020) }
node Album { slug: String @key  title: String  cover: Blob? }
edge Made: Artist -> Album { role: enum(guest, lead)? }
"""
RECORDS = [
    {"type": "Artist", "data": {"slug": "ada", "name": "Ada", "born": 1970}},
    {"type": "Album", "data": {"slug": "tides", "title": "Slow Tides"}},
    {"edge": "Made", "from": "ada", "to": "tides", "data": {"id": "m1", "role": "lead"}},
]


def lines(*records: dict) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(params=SURFACES, ids=str)
def surface(request: pytest.FixtureRequest, tmp_path: Path):
    """An empty graph behind one of the surfaces."""
    chosen = SURFACES[request.param](tmp_path / "graph.omni")
    chosen.init(SCHEMA)
    return chosen


@pytest.fixture
def loaded(surface):
    surface.load(lines(*RECORDS), "append")
    return surface


@pytest.fixture(params=DIRECT, ids=str)
def stored(request: pytest.FixtureRequest, tmp_path: Path):
    """A graph behind a surface that leads to its storage."""
    chosen = DIRECT[request.param](tmp_path / "graph.omni")
    chosen.init(SCHEMA)
    return chosen


def test_a_graph_cannot_be_created_twice(surface) -> None:
    with pytest.raises(Refused) as refused:
        surface.init(SCHEMA)
    assert (refused.value.body["kind"], refused.value.code) == ("already_initialized", 1)


def test_the_schema_comes_back_as_it_was_written(surface) -> None:
    assert surface.schema() == SCHEMA


def test_a_load_reports_what_it_did(surface) -> None:
    body = surface.load(lines(*RECORDS), "append")
    commit = body.pop("commit")
    assert body.pop("engine_reason"), "which differs from surface to surface"
    assert body == {
        "branch": "main",
        "base_branch": None,
        "branch_created": False,
        "mode": "append",
        "engine": "local",
        "nodes": [
            {"name": "Album", "entities_loaded": 1},
            {"name": "Artist", "entities_loaded": 1},
        ],
        "edges": [{"name": "Made", "entities_loaded": 1}],
        "total_entities": 3,
        "actor_id": "act",
    }
    assert commit == surface.commits()[0] == surface.commit(commit["graph_commit_id"])


def test_a_merge_finds_edges_by_the_columns_that_are_named(loaded) -> None:
    again = {"edge": "Made", "from": "ada", "to": "tides", "data": {"role": "guest"}}
    loaded.load(lines(again), "merge", match=["src", "dst"])
    edges = [record for record in loaded.export() if "edge" in record]
    assert [(one["data"]["id"], one["data"]["role"]) for one in edges] == [("m1", "guest")]
    with pytest.raises(Refused) as refused:
        loaded.load(lines(again), "merge", match=["src", "rolle"])
    assert (refused.value.body["kind"], refused.value.code) == ("bad_options", 2)


def test_an_export_gives_every_record_edges_first(loaded) -> None:
    assert loaded.export() == [
        {"edge": "Made", "from": "ada", "to": "tides", "data": {"id": "m1", "role": "lead"}},
        {
            "type": "Album",
            "data": {"id": "tides", "cover": None, "slug": "tides", "title": "Slow Tides"},
        },
        {"type": "Artist", "data": {"id": "ada", "born": 1970, "name": "Ada", "slug": "ada"}},
    ]


def test_a_key_that_exists_is_a_conflict_with_its_line(loaded) -> None:
    with pytest.raises(Refused) as refused:
        loaded.load("\n" + lines(RECORDS[0]), "append")
    assert refused.value.body["code"] == "conflict"
    assert refused.value.body["key_conflict"] == {
        "entity_kind": "node",
        "type_name": "Artist",
        "entity_id": "ada",
        "line": 2,
    }
    assert "line 2" in refused.value.body["error"]


def test_bad_lines_are_listed_and_nothing_is_loaded(loaded) -> None:
    before = loaded.export()
    bad = lines(
        {"type": "Artist", "data": {"slug": "x", "name": "X", "age": 3}},
        {"type": "Nobody", "data": {}},
    )
    with pytest.raises(Refused) as refused:
        loaded.load(bad, "merge")
    rejected = refused.value.body["rows_rejected"]
    assert rejected["total"] == 2
    assert [row["line"] for row in rejected["rows"]] == [1, 2]
    assert loaded.export() == before


def test_a_broken_rule_names_the_row(loaded) -> None:
    with pytest.raises(Refused) as refused:
        loaded.load(lines({"edge": "Made", "from": "ada", "to": "ghost"}), "append")
    violation = refused.value.body["violations"][0]
    assert violation["kind"] == "orphan_edge"
    assert violation["message"] == "dst 'ghost' not found in Album"
    assert violation["line"] == 1


def test_a_mutation_reports_counts_and_its_commit(loaded) -> None:
    body = loaded.mutate(
        'query add($s: String) { insert Artist { slug: $s, name: "Ben" } '
        'insert Made { from: $s, to: "tides" } }',
        {"s": "ben"},
    )
    assert (body["affected_nodes"], body["affected_edges"]) == (1, 1)
    assert body["commit"]["graph_commit_id"] == loaded.commits()[0]["graph_commit_id"]


def test_a_mutation_that_matches_nothing_commits_nothing(loaded) -> None:
    body = loaded.mutate('query q() { delete Artist where slug = "nobody" }')
    assert (body["affected_nodes"], body["commit"]) == (0, None)


def test_a_lost_race_has_an_exit_code_of_its_own(loaded) -> None:
    stale = loaded.commits()[0]["graph_commit_id"]
    loaded.mutate('query q() { update Artist set { born: 1971 } where slug = "ada" }')
    with pytest.raises(Refused) as refused:
        loaded.mutate('query q() { delete Artist where slug = "ada" }', if_commit=stale)
    assert refused.value.code == 4
    assert refused.value.body["precondition_failure"]["expected"] == stale
    assert refused.value.body["code"] == "conflict"


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "missing required parameter"),
        ({"b": "soon"}, "expected integer"),
        ({"b": 3_000_000_000}, "exceeds I32"),
        ({"b": 1950, "c": 1}, "unknown parameter"),
    ],
)
def test_wrong_parameters_are_named(loaded, params: dict, problem: str) -> None:
    query = 'query q($b: I32) { update Artist set { born: $b } where slug = "ada" }'
    with pytest.raises(Refused, match=problem):
        loaded.mutate(query, params)


def test_branches_are_isolated_and_history_is_shared(loaded) -> None:
    made = loaded.create_branch("review/2026")
    assert made == {"from": "main", "name": "review/2026", "actor_id": "act"}
    loaded.mutate('query q() { delete Artist where slug = "ada" }', branch="review/2026")
    assert loaded.branches() == ["main", "review/2026"]
    assert len(loaded.export("review/2026")) == 1
    assert len(loaded.export()) == 3
    assert len(loaded.commits("review/2026")) == len(loaded.commits()) + 1
    assert loaded.delete_branch("review/2026") == {"name": "review/2026", "actor_id": "act"}
    assert loaded.branches() == ["main"]


def list_conflicts(done: dict) -> list[tuple[str, str, list[str]]]:
    return [(one["kind"], one["entity_id"], one["properties"]) for one in done["conflicts"]]


def test_merges_and_undoing_work_by_property_unless_whole_rows_are_requested(loaded) -> None:
    """One row, of which each branch changed another property."""
    update = 'query q() {{ update Artist set {{ {} }} where slug = "ada" }}'
    loaded.create_branch("dev")
    born = loaded.mutate(update.format("born: 1971"), branch="dev")["commit"]["graph_commit_id"]
    loaded.mutate(update.format('name: "Ada L."'))
    clash = [("divergent_update", "ada", ["born", "name"])]
    by_entity = {"granularity": "entity", "dry_run": True}
    assert list_conflicts(loaded.merge("dev", **by_entity)) == clash
    assert list_conflicts(loaded.cherry_pick(born, **by_entity)) == clash
    with pytest.raises(Refused) as refused:
        loaded.merge("dev", granularity="entity")
    (conflict,) = refused.value.body["merge_conflicts"]
    assert conflict["properties"] == ["born", "name"]
    assert not list_conflicts(loaded.merge("dev", dry_run=True))
    assert loaded.merge("dev")["outcome"] == "merged"
    picked = loaded.cherry_pick(born, dry_run=True)
    assert (picked["outcome"], picked["conflicts"]) == ("unchanged", [])
    (ada,) = [one["data"] for one in loaded.export() if one.get("type") == "Artist"]
    assert (ada["name"], ada["born"]) == ("Ada L.", 1971)
    assert list_conflicts(loaded.revert(born, **by_entity)) == clash
    assert loaded.revert(born)["outcome"] == "reverted"
    (ada,) = [one["data"] for one in loaded.export() if one.get("type") == "Artist"]
    assert (ada["name"], ada["born"]) == ("Ada L.", 1970)


def test_a_load_can_create_its_branch(loaded) -> None:
    new = {"type": "Album", "data": {"slug": "new", "title": "New"}}
    with pytest.raises(Refused) as refused:
        loaded.load(lines(new), "append", branch="import")
    assert refused.value.body["kind"] == "branch_not_found"
    body = loaded.load(lines(new), "append", branch="import", base="main")
    assert (body["branch_created"], body["base_branch"]) == (True, "main")


def test_the_past_can_be_read(loaded) -> None:
    before = loaded.commits()[0]["graph_commit_id"]
    loaded.mutate('query q() { delete Artist where slug = "ada" }')
    assert len(loaded.export(snapshot=before)) == 3
    assert len(loaded.export()) == 1


def test_a_snapshot_names_tables_and_versions(loaded) -> None:
    body = loaded.snapshot()
    assert body["graph_branch"] == "main"
    assert body["internal_schema_version"] == 7
    assert {t["table_key"]: t["entity_count"] for t in body["tables"]} == {
        "edge:Made": 1,
        "node:Album": 1,
        "node:Artist": 1,
    }


@pytest.mark.parametrize("name", ["main", " ", "a//b", "x.lock", "__schema_apply_lock__"])
def test_a_bad_branch_name_is_refused(loaded, name: str) -> None:
    with pytest.raises(Refused) as refused:
        loaded.create_branch(name)
    assert refused.value.code == 1


def test_a_query_gives_rows_and_the_commit_they_came_from(loaded) -> None:
    text = (
        "query q($s: String) { match { $a: Artist { slug: $s }  $a made $b } "
        "return { $b.title, $a.born as y } }"
    )
    body = loaded.query(text, {"s": "ada"})
    assert body == {
        "query_name": "q",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
        "columns": ["b.title", "y"],
        "rows": [{"b.title": "Slow Tides", "y": 1970}],
        "graph_commit_id": loaded.commits()[0]["graph_commit_id"],
    }


def test_a_query_can_read_the_past(loaded) -> None:
    before = loaded.commits()[0]["graph_commit_id"]
    loaded.mutate('query q() { delete Artist where slug = "ada" }')
    text = "query q() { match { $a: Artist } return { count($a) as n } }"
    assert loaded.query(text)["rows"] == [{"n": 0}]
    past = loaded.query(text, snapshot=before)
    assert (past["rows"], past["graph_commit_id"]) == ([{"n": 1}], before)


def test_a_mutation_is_no_query(loaded) -> None:
    with pytest.raises(Refused, match="run it with `mutate`"):
        loaded.query('query q() { delete Artist where slug = "ada" }')


def test_an_unknown_commit_is_not_found(loaded) -> None:
    with pytest.raises(Refused) as refused:
        loaded.commit("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert refused.value.body["code"] == "not_found"


def test_mistakes_in_a_query_come_with_their_position(loaded) -> None:
    with pytest.raises(Refused) as refused:
        loaded.mutate("query q() {\n  insert Artst { slug: 1 }\n}")
    first = refused.value.body["diagnostics"][0]
    assert (first["code"], first["line"], first["column"]) == ("T10", 2, 10)
    assert first["hint"] == "did you mean `Artist`?"


def test_a_schema_change_is_planned(stored) -> None:
    body = stored.plan_schema(SCHEMA.replace("born: I32?", "born: I32?  nick: String?"))
    assert (body["supported"], body["step_count"]) == (True, 1)
    assert (body["steps"][0]["kind"], body["steps"][0]["property_name"]) == ("add_property", "nick")
    assert stored.schema() == SCHEMA


def test_a_plan_is_explained(stored) -> None:
    body = stored.explain("query q() { match { $a: Artist } return { $a.name } }")
    assert (body["name"], body["kind"]) == ("q", "read")
    assert body["columns"] == [{"name": "a.name", "type": "String"}]


def test_queries_are_checked(stored) -> None:
    body = stored.lint("query q() { match { $a: Artist } return { $a.name } }")
    assert (body["status"], body["errors"], body["schema_source"]["kind"]) == ("ok", 0, "graph")
    assert [(one["name"], one["kind"]) for one in body["results"]] == [("q", "read")]


def test_a_blob_is_described(loaded) -> None:
    cover = {"slug": "tides", "title": "Slow Tides", "cover": "base64:AAAA"}
    loaded.load(lines({"type": "Album", "data": cover}), "merge")
    body = loaded.blob_stat("node", "Album", "tides", "cover")
    assert (body["size"], body["storage"], body["uri"]) == (3, "managed", None)
    for cell, kind in [
        (("node", "Album", "nobody", "cover"), "entity_not_found"),
        (("node", "Album", "tides", "title"), "bad_request"),
        (("edge", "Album", "tides", "cover"), "bad_request"),
    ]:
        with pytest.raises(Refused) as refused:
            loaded.blob_stat(*cell)
        assert refused.value.body["kind"] == kind
