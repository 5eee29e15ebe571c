"""The effect of each statement of a mutation on a graph, and its refusals."""

from __future__ import annotations

import secrets
from collections import Counter

import pytest

import omnigraph
from graph.music_graph import affected, contents, edge, entities, ids, node, refusal, run
from io_counters import read_io_counters
from omnigraph.errors import BadRequest, CompileError, ConstraintViolated, ParameterError


def commit_count(graph):
    return len(graph.commits())


def test_inserting_a_stored_key_replaces_the_whole_entity(music):
    edges_before = contents(music, ["Influences", "Made", "SignedTo"])
    assert affected(music, 'insert Artist { slug: "ada", name: "Ada V." }') == (1, 0)
    ada = entities(music, "Artist")["ada"]
    assert ada == {
        "id": "ada",
        "bio": None,
        "born": None,
        "genres": None,
        "name": "Ada V.",
        "slug": "ada",
    }
    assert contents(music, ["Influences", "Made", "SignedTo"]) == edges_before


def test_a_node_and_its_edge_are_one_commit(music):
    before = commit_count(music)
    statements = 'insert Artist {slug:"gil", name:"Gil"} insert Influences {from:"gil", to:"ada"}'
    assert affected(music, statements) == (1, 1)
    assert commit_count(music) == before + 1
    assert ("gil", "ada") in {(e["from"], e["to"]) for e in entities(music, "Influences").values()}


def test_an_edge_may_come_before_the_node_it_needs(music):
    statements = 'insert Influences {from:"gil", to:"ada"} insert Artist {slug:"gil", name:"Gil"}'
    assert affected(music, statements) == (1, 1)


def test_an_edge_to_nowhere_takes_its_node_with_it(music):
    before = contents(music)
    statements = 'insert Artist {slug:"gil", name:"Gil"} insert Influences {from:"gil", to:"ghost"}'
    with refusal(ConstraintViolated, "dst 'ghost' not found in Artist"):
        run(music, statements)
    assert contents(music) == before
    with refusal(ConstraintViolated, "src 'ghost' not found in Artist"):
        run(music, 'insert Influences {from:"ghost", to:"ada"}')


def test_an_update_changes_every_match_and_nothing_else(music):
    before = entities(music, "Artist")
    assert affected(music, 'update Artist set { bio: "x" } where born = 1985') == (2, 0)
    after = entities(music, "Artist")
    assert {id for id in after if after[id] != before[id]} == {"ben", "dee"}
    assert after["ben"] == before["ben"] | {"bio": "x"}


def test_a_key_cannot_be_updated(music):
    with refusal(CompileError, "cannot update @key"):
        run(music, 'update Artist set { slug: "z" } where born = 1985')


def test_an_edge_keeps_its_ends_and_may_change_its_properties(music):
    with refusal(CompileError, "T16"):
        run(music, 'update Made set { from: "ben" } where from = "ada"')
    assert affected(music, 'update Made set { role: "guest" } where from = "ada"') == (0, 2)
    made = [e for e in entities(music, "Made").values() if e["from"] == "ada"]
    assert sorted((e["to"], e["role"]) for e in made) == [("embers", "guest"), ("tides", "guest")]


def test_an_update_without_a_match_makes_no_commit(music):
    before = commit_count(music)
    result = run(music, 'update Artist set { bio: "x" } where born > 3000')
    assert (result.affected_nodes, result.affected_edges, result.commit) == (0, 0, None)
    assert commit_count(music) == before


def test_updates_see_what_earlier_statements_wrote(music):
    statements = """
        update Artist set {born: 1980} where slug = "cy"
        update Artist set {born: 1981} where born = 1980
        update Artist set {bio: "k"} where slug = "cy" """
    assert affected(music, statements) == (3, 0)
    cy = entities(music, "Artist")["cy"]
    assert (cy["born"], cy["bio"]) == (1981, "k")


def test_an_update_sees_an_entity_inserted_before_it(music):
    statements = """
        insert Artist {slug: "gil", name: "Gil", born: 1950}
        update Artist set {bio: "old"} where born < 1960 """
    assert affected(music, statements) == (2, 0)
    assert entities(music, "Artist")["gil"]["bio"] == "old"


def test_a_pending_entity_hides_its_committed_self(music):
    statements = """
        insert Artist {slug: "ben", name: "Ben", born: 1900}
        update Artist set {bio: "x"} where born = 1985 """
    assert affected(music, statements) == (2, 0)
    artists = entities(music, "Artist")
    assert (artists["ben"]["bio"], artists["dee"]["bio"]) == (None, "x")


def test_the_last_write_of_one_key_wins(music):
    statements = 'insert Artist {slug:"gil", name:"One"} insert Artist {slug:"gil", name:"Two"}'
    assert affected(music, statements) == (2, 0)
    assert entities(music, "Artist")["gil"]["name"] == "Two"


def test_each_touched_table_moves_by_one_version(music):
    before = {t.table_key: t.manifest_version for t in music.snapshot().tables}
    run(
        music,
        """insert Artist {slug: "gil", name: "Gil"}
           update Artist set {bio: "x"} where slug = "gil"
           insert Influences {from: "gil", to: "ada"}""",
    )
    after = {t.table_key: t.manifest_version for t in music.snapshot().tables}
    moved = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    assert moved == {"node:Artist": 1, "edge:Influences": 1}


@pytest.mark.parametrize(
    "statements",
    [
        'insert Artist {slug:"gil", name:"Gil"} delete Artist where slug = "ada"',
        'delete Made where from = "ada" update Artist set {bio: "x"} where slug = "ada"',
    ],
    ids=["insert then delete", "delete then update"],
)
def test_writing_and_deleting_do_not_mix(music, statements):
    before = contents(music)
    with refusal(CompileError, "mixes inserts/updates and deletes") as refused:
        run(music, statements)
    assert "split into separate mutations" in str(refused.value)
    assert "'q'" in str(refused.value)
    assert contents(music) == before


def test_deleting_a_node_deletes_its_edges(music):
    before = Counter(record.get("edge") for record in contents(music))
    assert affected(music, 'delete Artist where slug = "ada"') == (1, 6)
    after = Counter(record.get("edge") for record in contents(music))
    assert before - after == Counter({None: 1, "SignedTo": 1, "Made": 2, "Influences": 3})
    assert ids(music, "Influences") == {"i2", "i5", "i6"}


def test_overlapping_deletes_count_each_entity_once(music):
    statements = 'delete Artist where slug = "ada" delete Artist where born < 1990'
    assert affected(music, statements) == (3, 11)
    assert ids(music, "Artist") == {"cy", "fay"}


def test_a_null_in_one_condition_does_not_hide_a_row_from_the_next(music):
    # cy has no year of birth: the first condition is neither true nor false for it.
    statements = 'delete Artist where born < 1990 delete Artist where slug = "cy"'
    assert affected(music, statements)[0] == 4
    assert ids(music, "Artist") == {"fay"}


def test_edges_can_be_deleted_by_their_ends(music):
    assert affected(music, 'delete Made where from = "ada"') == (0, 2)
    assert affected(music, 'delete Influences where to = "ben"') == (0, 2)
    assert affected(music, "delete Influences where weight = 1.0") == (0, 1)
    assert ids(music, "Influences") == {"i2", "i3", "i6"}


def test_cascade_and_edge_delete_count_an_edge_once(music):
    statements = 'delete Influences where from = "dee" delete Artist where slug = "dee"'
    assert affected(music, statements) == (1, 2)


def test_deleting_nothing_makes_no_commit(music):
    result = run(music, 'delete Artist where slug = "nobody"')
    assert (result.affected_nodes, result.affected_edges, result.commit) == (0, 0, None)


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            'insert SignedTo {from:"ada", to:"nova"}',
            "@card violation on edge SignedTo: source 'ada' has 2 edges (max 1)",
        ),
        ('insert Made {from:"ada", to:"tides"}', "@unique violation on Made.(dst, src)"),
        (
            'insert Album {slug:"x", title:"X", rating: 11.0}',
            "@range violation on Album.rating: value 11.0 > max 10.0",
        ),
        (
            'insert Album {slug:"Bad Slug", title:"X"}',
            "@check violation on Album.slug: value 'Bad Slug' does not match pattern",
        ),
    ],
    ids=["cardinality", "unique", "range", "check"],
)
def test_a_broken_rule_leaves_the_graph_as_it_was(music, statement, text):
    before, head = contents(music), music.commits()[0]
    with refusal(ConstraintViolated, text):
        run(music, statement)
    assert contents(music) == before
    assert music.commits()[0] == head


def test_an_edge_its_source_cannot_do_without_is_not_deleted(tmp_path):
    graph = omnigraph.init(
        tmp_path / "g.omni",
        "node A { slug: String @key }\nnode B { slug: String @key }\nedge Has: A -> B @card(1..2)",
    )
    nodes = [node("A", slug="a"), node("B", slug="b"), node("B", slug="c")]
    graph.load([*nodes, edge("Has", "a", "b"), edge("Has", "a", "c")], "append")
    assert affected(graph, 'delete Has where to = "b"') == (0, 1)
    before, commits = contents(graph), graph.commits()
    for statement in ('delete Has where from = "a"', 'delete B where slug = "c"'):
        with refusal(ConstraintViolated, "source 'a' has 0 edges (min 1)"):
            run(graph, statement)
        assert (contents(graph), graph.commits()) == (before, commits)
    assert affected(graph, 'delete A where slug = "a"') == (1, 1)


def test_an_enum_is_checked_in_a_literal_and_in_a_parameter(music):
    with refusal(CompileError, "T3"):
        run(music, 'insert Made {from:"dee", to:"tides", role: "boss"}')
    text = "invalid enum value 'boss' for Made.role (expected: guest, lead)"
    with refusal((ConstraintViolated, BadRequest), text):
        run(
            music,
            'insert Made {from:"dee", to:"tides", role: $r}',
            "$r: String",
            params={"r": "boss"},
        )


def test_a_value_released_by_an_earlier_update_can_be_reused(music):
    run(music, 'insert Artist {slug: "gil", name: "Gil"}')
    run(music, 'delete Made where from = "ada"')
    assert affected(music, 'insert Made {from:"ada", to:"tides"}') == (0, 1)


def test_a_composite_key_makes_one_id(music):
    assert affected(music, 'insert Take {studio:"b", number: 7}') == (1, 0)
    assert affected(music, 'insert Take {studio:"b", number: 7, seconds: 1.5}') == (1, 0)
    takes = entities(music, "Take")
    assert takes == {'["7","b"]': takes['["7","b"]']}
    assert takes['["7","b"]']["seconds"] == 1.5


def test_a_number_too_large_for_its_column_is_refused(music):
    with refusal(CompileError, "exceeds UInt32 range"):
        run(music, 'insert Take {studio:"b", number: 4294967296}')
    with refusal((BadRequest, ParameterError), "exceeds UInt32 range"):
        run(
            music,
            'insert Take {studio:"b", number: $n}',
            "$n: I64",
            params={"n": 4294967296},
        )


def test_edges_may_be_parallel_and_get_ids_of_their_own(music):
    run(
        music, 'insert Sampled {from:"tidal", to:"tides"} insert Sampled {from:"tidal", to:"tides"}'
    )
    parallel = [e for e in entities(music, "Sampled").values() if e["from"] == "tidal"]
    assert len(parallel) == 3
    assert all(len(e["id"]) == 26 for e in parallel)


def test_comparing_with_null_matches_nothing(music):
    assert affected(
        music,
        'update Artist set {bio: "x"} where born = $b',
        "$b: I32?",
        params={"b": None},
    ) == (0, 0)


def test_null_into_a_required_property_is_refused(music):
    with refusal(BadRequest, "non-nullable"):
        run(
            music,
            'update Artist set {name: $n} where slug = "ada"',
            "$n: String?",
            params={"n": None},
        )


def test_a_query_that_only_reads_is_no_mutation(music):
    with refusal(BadRequest, "only reads"):
        music.mutate("query q() { match { $a: Artist } return { $a.name } }")


@pytest.mark.parametrize(
    "condition",
    [
        "{}born > 1960",
        "{}born != 1985 or {}born is null",
        "not ({}born >= 1985)",
        "{}born in [1985, 1992.0, 7]",
        '{}name contains "a" and {}born is not null',
        '{}name starts_with "D"',
        '{}genres contains "ambient"',
        "{}genres is null",
    ],
)
def test_a_mutation_selects_what_a_query_with_the_same_condition_finds(music, condition):
    found = music.query(
        f"query q() {{ match {{ $a: Artist {condition.replace('{}', '$a.')} }}"
        " return { $a.slug as slug } }"
    )
    wanted = {row["slug"] for row in found.rows}
    affected(music, f'update Artist set {{ bio: "marked" }} where {condition.replace("{}", "")}')
    after = entities(music, "Artist")
    assert {slug for slug, artist in after.items() if artist["bio"] == "marked"} == wanted
    affected(music, f"delete Artist where {condition.replace('{}', '')}")
    assert set(entities(music, "Artist")) == set(after) - wanted


def test_a_condition_on_one_property_reads_no_other_of_rows_it_does_not_select(tmp_path):
    graph = omnigraph.init(tmp_path / "g", "node P { name: String @key  age: I64 }")
    rows = [node("P", name=secrets.token_hex(64), age=age) for age in range(10_000)]
    graph.load(rows, "append")
    graph = omnigraph.open(graph.uri)
    before = read_io_counters()
    assert affected(graph, "delete P where age > 9999") == (0, 0)
    keys = sum(len(row["data"]["name"]) for row in rows)
    assert (read_io_counters() - before).bytes_read < keys / 4
