"""Answers that are easily wrong without an error."""

from __future__ import annotations

import pytest

from omnigraph.errors import BadRequest, CompileError, ParameterError


def test_a_missing_parameter_never_drops_a_filter(music):
    query = "query q($s: String) { match { $a: Artist { slug: $s } } return { $a.slug } }"
    with pytest.raises(ParameterError, match="missing required"):
        music.rows(query)
    with pytest.raises(CompileError, match="T14"):
        music.rows("match { $a: Artist { slug: $s } } return { $a.slug }")


def test_a_null_parameter_matches_nothing(music):
    query = "query q($s: String?) { match { $a: Artist { slug: $s } } return { $a.slug } }"
    assert music.rows(query) == []
    query = "query q($s: String?) { match { $a: Artist not ($a.slug = $s) } return { $a.slug } }"
    assert music.rows(query) == []
    query = "query q($s: [String]?) { match { $a: Artist $a.slug in $s } return { $a.slug } }"
    assert music.rows(query) == []


def test_now_is_one_moment_everywhere_in_a_read(music):
    moment = "2024-06-01T12:30:15.250Z"
    query = "match { $t: Take $t.at < now() } return { $t.number, now(), now() as again }"
    assert [row["now"] for row in music.rows(query)] == [moment, moment]
    assert [row["again"] for row in music.rows(query)] == [moment, moment]
    assert music.rows("match { $t: Take { at: now() } } return { $t.number }") == []
    query = "match { $t: Take $t.at < now() } return { max($t.at) as last }"
    assert music.rows(query) == [{"last": "2024-06-01T12:00:00.250Z"}]


def test_a_variable_bound_twice_stays_one_variable(music):
    query = 'match { $a: Artist { born: 1985 } $a: Artist $a.name contains "Oru" } return {$a.slug}'
    assert music.column(query) == ["ben"]
    query = "match { $a: Artist not { $a: Artist { born: 1985 } } } return {$a.slug}"
    assert music.column(query) == ["ada", "cy", "fay"]


def test_two_ways_that_close_on_one_variable_are_both_tested(music):
    query = (
        "match { $a: Artist $b: Artist $a influences $b $b mentors $a } return {$a.slug, $b.slug}"
    )
    assert music.tuples(query) == [("ada", "ben")]
    query = "match { $a: Artist $b: Artist $a influences $b $a mentors $b } return {$a.slug}"
    assert music.tuples(query) == []


def test_whole_numbers_and_fractions_compare_exactly_across_variables(music):
    query = (
        "match { $a: Artist $a $w:signedTo $l $a $v:influences $x "
        "$w.advance > $v.weight } return { $a.slug, $v.weight } order { $v.weight }"
    )
    assert music.tuples(query) == [("ada", 0.3), ("ada", 0.9)]


def test_a_float32_equals_the_number_it_was_written_as(music):
    assert music.column("match { $t: Take { seconds: 0.1 } } return {$t.studio}") == ["north"]
    assert music.column("match { $t: Take $t.seconds <= 0.1 } return {$t.number}") == [1]
    query = "query q($x: F64) { match { $t: Take $t.seconds = $x } return {$t.number} }"
    assert music.column(query, {"x": 0.1}) == []
    assert music.column(query, {"x": 0.10000000149011612}) == [1]
    query = "query q($x: F32) { match { $t: Take $t.seconds = $x } return {$t.number} }"
    assert music.column(query, {"x": 0.1}) == [1]


def test_false_is_smaller_than_true(music):
    assert music.column("match { $t: Take $t.final < true } return {$t.number}") == [2]
    assert music.column("match { $t: Take $t.final } return {$t.number}") == [1]
    assert music.column("match { $t: Take not $t.final } return {$t.number}") == [2]
    query = "match { $t: Take } return {min($t.final) as least, max($t.final) as most}"
    assert music.tuples(query) == [(False, True)]


def test_a_blob_can_be_tested_for_null_anywhere(music):
    with_cover, without = ["embers"], ["static", "tidal", "tides"]
    for body, expected in {
        "$b: Album not { $b.cover is null }": with_cover,
        "$b: Album not { $b.cover is not null }": without,
        "$a: Artist $a made $b $b.cover is not null": ["embers", "embers"],
        '$b: Album $b.cover is not null or search($b.title, "slow")': ["embers", "tides"],
        '$b: Album $b.slug != "tides" not { $x: Book $b.cover is null }': with_cover,
    }.items():
        assert music.column(f"match {{ {body} }} return {{$b.slug}}") == expected, body


def test_a_negative_limit_is_refused_by_name(music):
    query = "query q($n: I32) { match { $a: Artist } return { $a.slug } limit $n }"
    assert music.column(query, {"n": 2}) == ["ada", "ben"]
    with pytest.raises(ParameterError, match="limit takes a number that is not negative"):
        music.rows(query, {"n": -1})
    query = "query q($n: I32) { match { $a: Artist } return { $a.slug } limit 3 offset $n }"
    with pytest.raises(ParameterError, match="offset"):
        music.rows(query, {"n": -1})


def test_an_exact_sum_that_does_not_fit_is_an_error(music):
    query = "match { $b: Album $c: Album } return { sum_int($b.plays) as s }"
    assert music.rows(query) == [{"s": 4 * (9007199254740993 + 160)}]
    large = 2**64 - 1
    query = (
        "query q($n: U64) { match { $b: Album $c: Album $b.plays < $n } "
        "return { sum_int($b.plays) as s, sum($b.plays) as f } }"
    )
    assert music.rows(query, {"n": large})[0]["f"] == float(4 * (9007199254740993 + 160))
    many = " ".join(f"$x{i}: Artist" for i in range(6))
    with pytest.raises(BadRequest, match="exceeds U64"):
        music.rows(f"match {{ $b: Album {many} }} return {{ sum_int($b.plays) as s }}")


def test_text_conditions_work_where_the_variable_comes_from_a_traversal(music):
    query = 'match { $a: Artist $a made $b search($b.title, "tide") } return {$a.slug, $b.slug}'
    assert music.tuples(query) == [("ada", "tides")]
    query = 'match { $a: Artist not { $a made $b search($b.title, "tide") } } return {$a.slug}'
    assert music.column(query) == ["ben", "cy", "dee", "fay"]
    query = (
        'match { $b: Album search($b.title, "slow") search($b.title, "night") } return {$b.slug}'
    )
    assert music.column(query) == []
    query = 'match { $b: Album search($b.title, "slow") or $b.rating = 7.0 } return {$b.slug}'
    assert music.column(query) == ["embers", "tides"]
    query = 'match { $b: Album not search($b.title, "slow") } return {$b.slug}'
    assert music.column(query) == ["embers", "static", "tidal"]
    query = "query q($t: String?) { match { $b: Album search($b.title, $t) } return {$b.slug} }"
    assert music.column(query) == []


def test_rankings_apply_to_what_the_whole_match_found(music):
    query = (
        "query q($q: Vector(3)) { match { %s } return {$b.slug} "
        "order { nearest($b.vibe, $q) } limit %d }"
    )
    vector = {"q": [1, 0, 0]}
    assert music.column(query % ("$b: Album", 2), vector) == ["tides", "tidal"]
    assert music.column(query % ("$b: Album", 9), vector) == ["tides", "tidal", "embers"]
    assert music.column(query % ("$b: Album $b.rating >= 7.0", 2), vector) == ["tides", "embers"]
    assert music.column(query % ("$b: Album $b sampled $x", 1), vector) == ["tidal"]
    made = '$a: Artist {slug:"ada"} $a made $b'
    assert music.column(query % (made, 1), {"q": [0, 1, 0]}) == ["embers"]
    assert music.column(query % ("$b: Album not { $_ made $b }", 3), vector) == []


def test_the_rows_of_a_ranked_node_stay_together(music):
    query = (
        "match { $a: Artist $a made $b } return {$b.slug, $a.slug} "
        "order { nearest($b.vibe, [0.0, 1.0, 0.0]) } limit 3"
    )
    assert music.tuples(query) == [("embers", "ada"), ("embers", "ben"), ("tidal", "fay")]


def test_scores_are_values_like_others(music):
    query = (
        'match { $b: Album bm25($b.title, "night embers") > 0.0 } '
        'return {$b.slug, bm25($b.title, "night embers") as s} order { s desc }'
    )
    rows = music.tuples(query)
    assert [row[0] for row in rows] == ["embers"]
    query = (
        "match { $b: Album } return {$b.slug, nearest($b.vibe, [1.0, 0.0, 0.0]) as d} order { d }"
    )
    rows = music.tuples(query.replace("order { d }", "order { $b.slug }"))
    assert [row[0] for row in rows] == ["embers", "static", "tidal", "tides"]
    assert rows[1][1] is None
    assert rows[3][1] == 0.0
    assert rows[0][1] == pytest.approx(2**0.5)


def test_a_fused_ranking_sees_the_whole_match(music):
    ranking = 'rrf(nearest($b.vibe, [1.0, 0.0, 0.0]), bm25($b.title, "embers"))'
    query = (
        f"match {{ $b: Album }} return {{$b.slug, {ranking} as s}} order {{ {ranking} }} limit 3"
    )
    rows = music.tuples(query)
    assert [row[0] for row in rows] == ["embers", "tides", "tidal"]
    assert [row[1] for row in rows] == pytest.approx([1 / 63 + 1 / 61, 1 / 61, 1 / 62])
    query = f"match {{ $b: Album }} return {{$b.slug}} order {{ {ranking} }} limit 1 offset 1"
    assert music.column(query) == ["embers"]


def test_nothing_to_look_for_gives_no_ranking(music):
    query = (
        "query q($q: Vector(3)?, $t: String?) { match { $b: Album } return {$b.slug} "
        "order { %s } limit 3 }"
    )
    for ranking in ("nearest($b.vibe, $q)", "bm25($b.title, $t)"):
        assert music.rows(query % ranking) == []


def test_a_text_is_embedded_with_dimension_and_model(music):
    from dataclasses import replace

    asked = []

    def embed(text, dimension, model):
        asked.append((text, dimension, model))
        return [0.0, 1.0, 0.0]

    query = 'match { $b: Album } return {$b.slug} order { nearest($b.vibe, "calm") } limit 1'
    with pytest.raises(BadRequest, match="embedding provider"):
        music.rows(query)
    music.given = replace(music.given, embed=embed)
    assert music.column(query) == ["embers"]
    assert asked == [("calm", 3, "m-1")]
