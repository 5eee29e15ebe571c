"""One behaviour of the query language each, on the music graph, for every way of traversing."""

from __future__ import annotations

import pytest

from omnigraph.errors import CompileError, ParameterError

ADA = 'match { $a: Artist {slug:"ada"} '


def test_a_lookup_names_its_columns(music):
    query = (
        "query q($s: String) { match { $a: Artist { slug: $s } } return { $a.name, $a.born as y } }"
    )
    assert music.rows(query, {"s": "ada"}) == [{"a.name": "Ada Voss", "y": 1970}]
    assert music.rows(query, {"s": "zz"}) == []


def test_a_list_property_is_matched_by_membership(music):
    assert music.column('match { $a: Artist { genres: "dub" } } return { $a.slug }') == [
        "ada",
        "ben",
    ]
    query = 'match { $a: Artist $a.genres contains "ambient" } return { $a.slug }'
    assert music.column(query) == ["ada", "fay"]


def test_null_is_excluded_by_every_comparison(music):
    assert music.column("match { $a: Artist $a.born < 1990 } return { $a.slug }") == [
        "ada",
        "ben",
        "dee",
    ]
    query = "match { $a: Artist $a.born != 1985 } return { $a.slug }"
    assert music.column(query) == ["ada", "fay"]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("order {$a.born asc}", ["cy", "ada", "ben", "dee", "fay"]),
        ("order {$a.born desc}", ["fay", "ben", "dee", "ada", "cy"]),
        ("order {$a.born desc} limit 2", ["fay", "ben"]),
        ("order {$a.born desc} limit 2 offset 1", ["ben", "dee"]),
        ("order {$a.born desc} limit 0", []),
    ],
)
def test_null_sorts_lowest_and_ties_go_by_id(music, order, expected):
    assert music.column(f"match {{ $a: Artist }} return {{$a.slug}} {order}") == expected


def test_parallel_edges_lead_to_one_row(music):
    assert music.column(ADA + "$a influences $x } return {$x.slug}") == ["ben"]


def test_a_bound_edge_gives_a_row_for_every_edge(music):
    query = ADA + "$a $w:influences $x } return {$x.slug, $w.weight} order {$w.weight desc}"
    assert music.tuples(query) == [("ben", 0.9), ("ben", 0.3)]
    query = ADA + "$a $w:influences $x $w.weight < 0.5 } return {$x.slug, $w.weight}"
    assert music.tuples(query) == [("ben", 0.3)]


@pytest.mark.parametrize(
    ("hops", "expected"), [("{1,3}", ["ben", "cy"]), ("{2,2}", ["cy"]), ("{3,3}", [])]
)
def test_hop_bounds_are_about_the_shortest_way(music, hops, expected):
    assert music.column(ADA + f"$a influences{hops} $x }} return {{$x.slug}}") == expected


@pytest.mark.parametrize(
    ("start", "way", "expected"),
    [
        ("dee", "influences{1,2}", ["dee", "fay"]),
        ("dee", "influences{2,2}", []),
        ("fay", "<influences>{2,2}", ["dee"]),
        ("ben", "<influences>", ["ada", "cy"]),
        ("dee", "<influences>", ["dee", "fay"]),
    ],
)
def test_self_loops_and_undirected_ways(music, start, way, expected):
    query = f'match {{ $a: Artist {{slug:"{start}"}} $a {way} $x }} return {{$x.slug}}'
    assert music.column(query) == expected


@pytest.mark.parametrize("clause", ["$a signedTo $l", "$l signedTo $a", "$a signedto $l"])
def test_a_traversal_can_be_written_from_either_end(music, clause):
    query = f'match {{ $l: Label {{slug:"wave"}} {clause} }} return {{$a.slug}}'
    assert music.column(query) == ["ada", "fay"]


@pytest.mark.parametrize(
    ("negation", "expected"),
    [
        ("not { $a signedTo $_ }", ["cy", "dee"]),
        ('not { $a signedTo $l  $l.country = "uk" }', ["ben", "cy", "dee"]),
        ('not { $a signedTo $l  not { $l.country = "uk" } }', ["ada", "cy", "dee", "fay"]),
        ("not { $a.born > 1980 }", ["ada", "cy"]),
        ("not { $x: Artist $x.born > $a.born }", ["cy", "fay"]),
    ],
)
def test_a_negation_keeps_rows_without_a_match(music, negation, expected):
    assert music.column(f"match {{ $a: Artist {negation} }} return {{$a.slug}}") == expected


def test_a_negation_is_followed_in_the_direction_of_its_types(music):
    assert music.column("match { $l: Label not { $l signedTo $a } } return {$l.slug}") == ["drift"]


def test_every_path_is_a_row(music):
    query = "match { $a: Artist $a made $b } return {$b.slug} order {$b.slug}"
    assert music.column(query) == ["embers", "embers", "static", "tidal", "tides"]


def test_two_traversals_from_one_node_multiply(music):
    query = ADA + "$a made $b $a signedTo $l } return {$b.slug,$l.slug}"
    assert music.tuples(query) == [("embers", "wave"), ("tides", "wave")]


def test_unconnected_parts_multiply(music):
    assert music.rows("match { $l: Label $b: Album } return { count($b) as n }") == [{"n": 12}]
    query = "match { $l: Label $b: Album } return { $l.slug, $b.slug } limit 5"
    assert music.tuples(query) == [
        ("drift", "embers"),
        ("nova", "embers"),
        ("wave", "embers"),
        ("drift", "static"),
        ("nova", "static"),
    ]


def test_a_cycle_is_closed_by_joining(music):
    query = (
        "match { $a: Artist $a influences $b $b influences $c $c influences $a } return {$a.slug}"
    )
    assert music.column(query) == ["ada", "ben", "cy", "dee"]


def test_rows_are_grouped_by_what_is_not_aggregated(music):
    query = "match { $a: Artist $a made $b } return {$a.slug, count($b) as n} order {n desc}"
    assert music.tuples(query) == [("ada", 2), ("ben", 1), ("cy", 1), ("fay", 1)]


def test_aggregates_of_nothing(music):
    body = 'match {$a: Artist {slug:"zz"}} return {count($a) as n, avg($a.born) as m'
    assert music.rows(body + "}") == [{"n": 0, "m": None}]
    assert music.rows(body + ", $a.name}") == []


def test_aggregate_values(music):
    columns = "count($b.rating) as c, sum($b.rating) as s, min($b.title) as t"
    query = f"match {{ $b: Album }} return {{{columns}}}"
    assert music.rows(query) == [{"c": 3, "s": 24.5, "t": "Night Embers"}]
    query = "match { $b: Album $b.plays < 1000 } return {sum($b.plays) as s}"
    assert music.rows(query) == [{"s": 160.0}]
    query = "match { $b: Album } return {max($b.released) as newest}"
    assert music.rows(query) == [{"newest": "2012-09-09"}]


def test_null_is_a_group(music):
    query = "match { $l: Label } return {$l.country, count($l) as n}"
    assert sorted(music.tuples(query), key=str) == [("jp", 1), ("uk", 1), (None, 1)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('$b.title contains "Tid"', ["tidal", "tides"]),
        ('$b.title contains "tid"', []),
        ('$b.title contains "%"', []),
        ('$b.title contains ""', ["embers", "static", "tidal", "tides"]),
        ('$b.title starts_with "Slow"', ["tides"]),
        ('$b.title ends_with "s"', ["embers", "tidal", "tides"]),
        ('"Slow Tides and more" contains $b.title', ["tides"]),
        ('$b.released >= date("2005-01-10")', ["embers", "tidal"]),
        ('not $b.released >= date("2005-01-10")', ["tides"]),
        ("$b.plays > 9007199254740992", ["embers"]),
        ("$b.plays > 9007199254740992.0", ["embers"]),
        ("$b.plays = -1", []),
        ("$b.cover is null", ["static", "tidal", "tides"]),
        ("$b.cover is not null", ["embers"]),
        ("$b.vibe is null", ["static"]),
        ("$b.rating in [7, 9.0]", ["embers", "static"]),
        ("$b.rating not in [7.0]", ["static", "tides"]),
        ('$b.slug in ["tides", "nobody"] or $b.rating is null', ["tidal", "tides"]),
        ("$b.rating > 7.0 and not ($b.plays is null)", ["tides"]),
    ],
)
def test_conditions_on_values(music, condition, expected):
    assert music.column(f"match {{ $b: Album {condition} }} return {{$b.slug}}") == expected


def test_a_date_is_matched_inline(music):
    query = 'match { $b: Album {released: date("1999-05-04")} } return {$b.slug}'
    assert music.column(query) == ["tides"]


def test_numbers_of_different_types_compare_exactly(music):
    query = "match { $a: Artist $a.born > 1984.5 } return {$a.slug}"
    assert music.column(query) == ["ben", "dee", "fay"]
    query = "match { $a: Artist $a $w:signedTo $l $w.advance < 500.5 } return {$a.slug}"
    assert music.column(query) == ["ada"]


def test_values_come_out_as_json(music):
    query = 'match { $b: Album {slug:"embers"} } return {$b.plays,$b.released,$b.vibe,$b}'
    assert music.rows(query) == [
        {
            "b.plays": 9007199254740993,
            "b.released": "2005-01-10",
            "b.vibe": [0.0, 1.0, 0.0],
            "b": "embers",
        }
    ]


def test_parameters_are_checked_before_anything_runs(music):
    query = "query q($y: I32) { match { $a: Artist $a.born = $y } return {$a.slug} }"
    assert music.column(query, {"y": "1985"}) == ["ben", "dee"]
    for given, problem in [
        ({"y": 3_000_000_000}, "exceeds I32"),
        ({"y": None}, "null is not accepted"),
        ({}, "missing required"),
        ({"y": 1, "z": 2}, "unknown"),
    ]:
        with pytest.raises(ParameterError, match=problem):
            music.column(query, given)
    query = "query q($y: I32?) { match { $a: Artist $a.born = $y } return {$a.slug} }"
    assert music.column(query) == []


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("match { $a: Artist $a <signedTo> $l } return {$l.slug}", "T22"),
        ("match { $b: Album } return {$b.slug, 1, count($b)}", "T9"),
        ('match { $b: Album $b.released >= "2005" } return {$b.slug}', "T7"),
        ('match { $a: Artist $a.born contains "x" } return {$a.slug}', "T7"),
        ("match { $a: Artist { slug: $slgu } } return {$a.slug}", "T14"),
        ("match { $b: Album } return {$b.cover}", "T24"),
        ("match { $a: Artist $a influences{1,} $b } return {$b.slug}", "T15"),
    ],
)
def test_mistakes_never_reach_the_executor(music, body, code):
    with pytest.raises(CompileError) as raised:
        music.plan(body)
    assert code in [d.code for d in raised.value.diagnostics]


def test_a_traversal_without_bindings_scans_its_source(music):
    query = "match { $a influences $b } return {$a.slug,$b.slug}"
    assert music.tuples(query) == [
        ("ada", "ben"),
        ("ben", "cy"),
        ("cy", "ada"),
        ("dee", "dee"),
        ("dee", "fay"),
    ]
