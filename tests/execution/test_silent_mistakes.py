"""Queries that an engine easily answers wrongly without an error, one test for each."""

from __future__ import annotations

import pytest

import omnigraph
from execution.worked_examples import CONTENTS, SCHEMA
from omnigraph.errors import CompileError, ParameterError

EVENTS = "\nnode Event { name: String @key  at: DateTime? }\n"
PAST, FUTURE = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
VECTOR = {"q": [1, 0, 0]}


@pytest.fixture(scope="module")
def graph(tmp_path_factory) -> omnigraph.Graph:
    made = omnigraph.init(str(tmp_path_factory.mktemp("music") / "music.omni"), SCHEMA + EVENTS)
    made.load(CONTENTS.encode(), "append")
    events = [{"name": "past", "at": PAST}, {"name": "future", "at": FUTURE}]
    made.load([{"type": "Event", "data": event} for event in events], "append")
    return made


def ask(graph: omnigraph.Graph, body: str, params=None, declared: str = "") -> list[object]:
    """The values of the first column."""
    result = graph.query(f"query q({declared}) {{ {body} }}", None, params)
    return [next(iter(row.values())) for row in result.rows]


def mistake(graph: omnigraph.Graph, text: str) -> str:
    """The code of the first mistake a query is refused for."""
    with pytest.raises(CompileError) as caught:
        graph.query(text)
    return caught.value.diagnostics[0].code


def test_an_undeclared_variable_in_an_inline_match_is_refused(graph):
    text = "query q($slug: String) { match { $a: Artist { slug: $slgu } } return { $a } }"
    assert mistake(graph, text) == "T14"


def test_a_required_parameter_that_is_left_out_is_refused(graph):
    body = "match { $a: Artist { slug: $s } } return { $a }"
    with pytest.raises(ParameterError, match="missing required"):
        ask(graph, body, {}, "$s: String")


def test_now_works_in_a_read_inline_and_in_a_filter(graph):
    assert ask(graph, "match { $e: Event  $e.at < now() } return { $e }") == ["past"]
    assert ask(graph, "match { $e: Event  $e.at > now() } return { $e }") == ["future"]
    assert ask(graph, "match { $e: Event { at: now() } } return { $e }") == []


def test_a_text_filter_on_what_a_traversal_reaches_is_applied(graph):
    body = 'match { $a: Artist  $a made $b  search($b.title, "tide") } return { $a }'
    assert ask(graph, body) == ["ada"]


@pytest.mark.parametrize(
    ("ranking", "expected"),
    [("nearest($b.vibe, $q)", "tidal"), ('bm25($b.title, "maps")', "tidal")],
)
def test_a_ranking_of_what_a_traversal_reaches_ranks_it(graph, ranking, expected):
    body = f"match {{ $a: Artist  $a made $b }} return {{ $b }} order {{ {ranking} }} limit 1"
    assert ask(graph, body, {"q": [0.9, 0.2, 0]}, "$q: Vector(3)") == [expected]


def test_a_text_filter_inside_a_negation_removes_only_what_it_finds(graph):
    body = 'match { $a: Artist  not { $a made $b  search($b.title, "tide") } } return { $a }'
    assert ask(graph, body) == ["ben", "cy", "dee", "fay"]


def test_two_text_filters_on_one_variable_both_apply(graph):
    both = 'search($b.title, "slow") search($b.title, "tide")'
    assert ask(graph, f"match {{ $b: Album  {both} }} return {{ $b }}") == ["tides"]
    neither = 'search($b.title, "slow") search($b.title, "night")'
    assert ask(graph, f"match {{ $b: Album  {neither} }} return {{ $b }}") == []


def test_a_text_filter_beside_a_ranking_by_text_is_applied(graph):
    body = (
        'match { $b: Album  search($b.title, "slow") } return { $b } '
        'order { bm25($b.title, "tides night embers") } limit 5'
    )
    assert ask(graph, body) == ["tides"]


def test_a_text_filter_beside_a_ranking_by_vector_is_applied(graph):
    body = (
        'match { $b: Album  search($b.title, "maps embers") } return { $b } '
        "order { nearest($b.vibe, $q) } limit 5"
    )
    assert ask(graph, body, VECTOR, "$q: Vector(3)") == ["tidal", "embers"]


def test_a_negation_written_from_the_far_end_follows_the_edge_backwards(graph):
    assert ask(graph, "match { $l: Label  not { $l signedTo $a } } return { $l }") == ["drift"]


def test_a_second_binding_of_a_variable_is_no_cross_join(graph):
    body = "match { $a: Artist { born: 1985 }  $a: Artist } return { $a }"
    assert ask(graph, body) == ["ben", "dee"]
    body = "match { $a: Artist  not { $a: Artist { born: 1985 } } } return { $a }"
    assert ask(graph, body) == ["ada", "cy", "fay"]


def test_two_traversals_that_close_on_one_variable_are_two_conditions(graph):
    closing = "$a influences $b  $b influences{1,2} $a"
    text = f"query q() {{ match {{ $a: Artist  $b: Artist  {closing} }} return {{ $a, $b }} }}"
    found = graph.query(text).rows
    assert [(row["a"], row["b"]) for row in found] == [
        ("ada", "ben"),
        ("ben", "cy"),
        ("cy", "ada"),
        ("dee", "dee"),
    ]


def test_a_traversal_without_any_binding_is_searched(graph):
    body = "match { $a influences $b } return { $a }"
    assert ask(graph, body) == ["ada", "ben", "cy", "dee", "dee"]


def test_a_whole_number_is_compared_with_a_fraction_exactly(graph):
    body = "match { $a $w:signedTo $l  $w.advance < 500.5 } return { $a }"
    assert ask(graph, body) == ["ada"]
    body = "match { $b: Album  $b.plays > 9007199254740992.0 } return { $b }"
    assert ask(graph, body) == ["embers"]


def test_an_entity_changed_three_times_in_one_mutation_is_one_entity(tmp_path):
    graph = omnigraph.init(
        str(tmp_path / "g.omni"), "node Song { name: String @key  code: I64? @unique  plays: I64? }"
    )
    result = graph.mutate(
        """query changes() {
             insert Song { name: "a", code: 1, plays: 1 }
             update Song set { plays: 2 } where name = "a"
             update Song set { code: 2 } where plays = 1
             update Song set { plays: 3 } where plays = 2
           }"""
    )
    assert result.affected_nodes == 3
    (song,) = graph.query(
        "query q() { match { $s: Song } return { $s.code as code, $s.plays as plays } }"
    ).rows
    assert song == {"code": 1, "plays": 3}


def test_conditions_on_other_variables_come_before_the_ranking(graph):
    body = (
        'match { $b: Album  $a made $b  $a.name = "Ben Oru" } return { $b } '
        "order { nearest($b.vibe, $q) } limit 1"
    )
    assert ask(graph, body, VECTOR, "$q: Vector(3)") == ["embers"]
    body = "match { $b: Album  $b sampled $x } return { $b } order { nearest($b.vibe, $q) } limit 2"
    assert ask(graph, body, VECTOR, "$q: Vector(3)") == ["tidal", "embers"]


def test_a_key_after_a_ranking_breaks_its_ties(graph):
    body = (
        "match { $a: Artist  $a made $b } return { $a } "
        'order { bm25($b.title, "embers"), $a.born %s } limit 5'
    )
    assert ask(graph, body % "asc") == ["ada", "ben"]
    assert ask(graph, body % "desc") == ["ben", "ada"]


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ('bm25($b.title, "x") asc', "T20"),
        ('rrf(bm25($b.title, "x"), bm25($b.slug, "x")) asc', "T21"),
    ],
)
def test_a_ranking_with_the_worst_first_is_refused(graph, order, code):
    text = f"query q() {{ match {{ $b: Album }} return {{ $b }} order {{ {order} }} limit 1 }}"
    assert mistake(graph, text) == code


def test_fused_rankings_of_two_variables_are_refused(graph):
    ranking = 'rrf(bm25($b.title, "x"), bm25($c.title, "x"))'
    text = f"query q() {{ match {{ $b: Album  $b sampled $c }} return {{ $b, {ranking} as s }} }}"
    assert mistake(graph, text) == "T21"


@pytest.mark.parametrize(
    "text",
    [
        "query q() { match { $a: Artist } return { $a } }\n"
        "query q() { match { $b: Album } return { $b } }",
        "query q($s: String, $s: I64) { match { $a: Artist } return { $a } }",
        "query q() { match { $a: Artist } return { $a.name as x, $a.born as x } }",
    ],
    ids=["two queries", "two parameters", "two columns"],
)
def test_one_name_for_two_things_is_refused(graph, text):
    with pytest.raises(CompileError):
        graph.query(text, "q")
