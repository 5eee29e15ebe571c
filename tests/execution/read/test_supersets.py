"""Constructs of the language beyond single paths: interfaces, optional parts, alternatives."""

from __future__ import annotations


def test_an_interface_ranges_over_its_implementers(music):
    query = "match { $t: Titled } return { $t, type($t), $t.title }"
    assert music.tuples(query) == [
        ("embers", "Album", "Night Embers"),
        ("maps", "Book", "Maps"),
        ("static", "Album", "Static Garden"),
        ("tidal", "Album", "Tidal Maps"),
        ("tides", "Album", "Slow Tides"),
        ("tides", "Book", "Of Tides"),
    ]
    query = 'match { $t: Titled $t.title contains "Tid" type($t) = "Book" } return { $t.title }'
    assert music.column(query) == ["Of Tides"]


def test_nodes_of_different_types_may_share_an_id(music):
    query = (
        "match { $t: Titled $u: Titled $t.id = $u.id $t != $u } "
        "return { $t, type($t), type($u) as u }"
    )
    assert music.tuples(query) == [("tides", "Album", "Book"), ("tides", "Book", "Album")]
    query = "match { $t: Titled $u: Titled $t = $u } return { count($t) as n }"
    assert music.rows(query) == [{"n": 6}]
    query = "match { $t: Titled } return { count(distinct $t.id) as n, count($t) as m }"
    assert music.rows(query) == [{"n": 5, "m": 6}]


def test_an_interface_variable_from_outside_is_narrowed_inside(music):
    query = "match { $t: Titled not { $a: Artist $a made $t } } return { type($t), $t }"
    assert music.tuples(query) == [("Book", "maps"), ("Book", "tides")]
    query = "match { $t: Titled optional { $t sampled $x } } return { type($t), $t, $x }"
    assert music.tuples(query) == [
        ("Album", "embers", "tides"),
        ("Book", "maps", None),
        ("Album", "static", None),
        ("Album", "tidal", "tides"),
        ("Album", "tides", None),
        ("Book", "tides", None),
    ]


def test_an_optional_part_gives_nulls_where_it_is_missing(music):
    query = "match { $a: Artist optional { $a $w:signedTo $l } } return { $a, $l.name, $w.advance }"
    assert music.tuples(query) == [
        ("ada", "Wave Records", 500),
        ("ben", "Nova", None),
        ("cy", None, None),
        ("dee", None, None),
        ("fay", "Wave Records", 900),
    ]


def test_an_optional_part_without_a_match_gives_only_nulls(music):
    query = (
        "match { $a: Artist "
        "optional { $a influences{1,2} $x hops $h $x.born < 1900 $x $w:made $b } } "
        "return { $a, $x.name, $h, $w.role, $b { title }, type($x) }"
    )
    assert music.tuples(query) == [
        (slug, None, None, None, None, None) for slug in ("ada", "ben", "cy", "dee", "fay")
    ]


def test_optional_parts_build_on_each_other(music):
    query = (
        "match { $a: Artist optional { $a made $b } optional { $b sampled $c } } "
        "return { $a, $b, $c }"
    )
    assert music.tuples(query) == [
        ("ada", "embers", "tides"),
        ("ada", "tides", None),
        ("ben", "embers", "tides"),
        ("cy", "static", None),
        ("dee", None, None),
        ("fay", "tidal", "tides"),
    ]


def test_conditions_and_aggregates_see_what_is_missing(music):
    body = "match { $a: Artist optional { $a signedTo $l } %s }"
    assert music.column(body % "$l.name is null" + " return { $a }") == ["cy", "dee"]
    assert music.column(body % '$l.country != "uk"' + " return { $a }") == ["ben"]
    query = body % "" + " return { count($a) as n, count($l) as m, count(distinct $l) as d }"
    assert music.rows(query) == [{"n": 5, "m": 3, "d": 2}]
    query = body % "" + " return { $l.slug, count($a) as n } order { n desc, $l.slug }"
    assert music.tuples(query) == [(None, 2), ("wave", 2), ("nova", 1)]
    query = body % "not { $l signedTo $x }" + " return { $a }"
    assert music.column(query) == ["cy", "dee"]


def test_alternatives_are_followed_as_one_way(music):
    query = 'match { $a: Artist {slug: "ada"} $a influences|mentors $x } return { $x }'
    assert music.column(query) == ["ben", "fay"]
    query = 'match { $a: Artist {slug: "ada"} $a <influences|mentors> $x } return { $x }'
    assert music.column(query) == ["ben", "cy", "fay"]
    query = (
        'match { $a: Artist {slug: "ben"} $a influences|mentors{1,2} $x hops $h } return { $x, $h }'
    )
    assert music.tuples(query) == [("ada", 1), ("cy", 1), ("fay", 2)]
    query = (
        'match { $a: Artist {slug: "ada"} $a $w:influences|mentors $x } '
        "return { $x, $w.weight } order { $x, $w.weight }"
    )
    assert music.tuples(query) == [("ben", 0.3), ("ben", 0.9), ("fay", None)]
    query = (
        'match { $a: Artist {slug: "ada"} $a $w:<influences|mentors> $x } '
        "return { count($w.id) as n }"
    )
    assert music.rows(query) == [{"n": 5}]


def test_hops_are_counted_on_the_shortest_way(music):
    query = "match { $a: Artist $a influences{1,3} $x hops $h } return { $a, $x, $h }"
    assert music.tuples(query) == [
        ("ada", "ben", 1),
        ("ada", "cy", 2),
        ("ben", "ada", 2),
        ("ben", "cy", 1),
        ("cy", "ada", 1),
        ("cy", "ben", 2),
        ("dee", "dee", 1),
        ("dee", "fay", 1),
    ]
    query = 'match { $a: Artist {slug: "ada"} $a influences{1,3} $x hops $h $h > 1 } return { $x } '
    assert music.column(query) == ["cy"]
    query = "match { $a influences{1,3} $x hops $h } return { $h, count($x) as n } order { $h }"
    assert music.tuples(query) == [(1, 5), (2, 3)]


def test_a_way_walked_backwards_counts_self_loops_where_the_query_does(music):
    # The named artist is cheapest to start from, but the query asks from every $a.
    query = 'match { $a: Artist $a influences{2,2} $x $x: Artist {slug: "dee"} } return { $a }'
    assert music.column(query) == []
    query = 'match { $a: Artist $a <influences>{2,2} $x $x: Artist {slug: "dee"} } return { $a }'
    assert music.column(query) == ["fay"]
    query = 'match { $a: Artist $a <influences>{2,2} $x $x: Artist {slug: "fay"} } return { $a }'
    assert music.column(query) == []


def test_a_variable_can_stand_at_both_ends(music):
    assert music.column("match { $a: Artist $a influences $a } return { $a }") == ["dee"]
    assert music.column("match { $a: Artist $a <influences>{1,3} $a } return { $a }") == ["dee"]
    query = "match { $a: Artist $a $w:influences $a } return { $a, $w.weight }"
    assert music.tuples(query) == [("dee", 1.0)]


def test_a_bound_edge_can_close_a_cycle(music):
    query = (
        "match { $a: Artist $b: Artist $a influences $b $a $w:influences $b } "
        "return { $a, $b, $w.weight } order { $a, $b, $w.weight }"
    )
    assert music.tuples(query)[:3] == [
        ("ada", "ben", 0.3),
        ("ada", "ben", 0.9),
        ("ben", "cy", 0.4),
    ]
    assert len(music.tuples(query)) == 6


def test_undirected_edges_are_bound_once_from_either_end(music):
    query = (
        'match { $a: Artist {slug: "dee"} $a $w:<influences> $x } '
        "return { $x, $w.id } order { $w.id }"
    )
    assert music.tuples(query) == [("dee", "i5"), ("fay", "i6")]
    query = (
        "match { $a: Artist $a $w:<influences> $x } "
        "return { $w.id, count($x) as n } order { $w.id }"
    )
    assert music.tuples(query) == [
        ("i1", 2),
        ("i2", 2),
        ("i3", 2),
        ("i4", 2),
        ("i5", 1),
        ("i6", 2),
    ]


def test_distinct_rows_in_the_order_of_their_columns(music):
    query = "match { $a: Artist $a made $b } return distinct { $b.slug }"
    assert music.column(query) == ["embers", "static", "tidal", "tides"]
    query = "match { $a: Artist } return distinct { $a.born } order { $a.born desc } limit 3"
    assert music.column(query) == [1992, 1985, 1970]
    query = "match { $a: Artist } return distinct { $a.genres, $a { born } as o }"
    assert len(music.rows(query)) == 5
    query = "match { $a: Artist $x: Artist } return distinct { $a.genres, $a { genres } as o }"
    assert len(music.rows(query)) == 5


def test_objects_and_constants(music):
    query = (
        'query q($p: [I64]) { match { $a: Artist {slug: "ada"} $a $w:signedTo $l } '
        'return { $a { id, born, genres, type }, $w { since } as w, $l, "x" as x, 1.5 as f, '
        'true as t, date("2024-01-01") as d, [1, 2] as n, $p } }'
    )
    assert music.rows(query, {"p": [3]}) == [
        {
            "a": {"id": "ada", "born": 1970, "genres": ["ambient", "dub"], "type": "Artist"},
            "w": {"since": "1998-01-01"},
            "l": "wave",
            "x": "x",
            "f": 1.5,
            "t": True,
            "d": "2024-01-01",
            "n": [1, 2],
            "p": [3],
        }
    ]


def test_values_are_collected_in_the_order_of_ids(music):
    collected = "collect($b.slug) as all, collect(distinct $b.slug) as some"
    query = f"match {{ $a: Artist $a made $b }} return {{ {collected} }}"
    assert music.rows(query) == [
        {
            "all": ["embers", "embers", "static", "tidal", "tides"],
            "some": ["embers", "static", "tidal", "tides"],
        }
    ]
    query = "match { $a: Artist $a made $b } return { $a, collect($b.rating) as r } order { $a }"
    assert music.tuples(query) == [
        ("ada", [7.0, 8.5]),
        ("ben", [7.0]),
        ("cy", [9.0]),
        ("fay", []),
    ]
    query = 'match { $a: Artist {slug: "zz"} } return { collect($a.slug) as all }'
    assert music.rows(query) == [{"all": []}]


def test_parts_are_joined_by_equal_values(music):
    query = "match { $a: Artist $b: Artist $a.born = $b.born $a != $b } return { $a, $b }"
    assert music.tuples(query) == [("ben", "dee"), ("dee", "ben")]
    query = (
        "match { $a: Artist $b: Artist $a.born = $b.born $a.slug < $b.slug } "
        "return { count($a) as n }"
    )
    assert music.rows(query) == [{"n": 1}]
    query = "match { $b: Album $k: Book $b.slug = $k.slug } return { $b.title, $k.title }"
    assert music.tuples(query) == [("Slow Tides", "Of Tides")]
    query = "match { $t: Take $a: Artist $t.number = $a.born } return { $t.number }"
    assert music.rows(query) == []


def test_a_condition_without_variables_decides_for_all_rows(music):
    query = "query q($on: Bool) { match { $a: Artist $on } return { count($a) as n } }"
    assert music.rows(query, {"on": True}) == [{"n": 5}]
    assert music.rows(query, {"on": False}) == [{"n": 0}]
