"""Text conditions and scores: what matches, how it is ranked, and that indices change nothing."""

from __future__ import annotations

import pydoc_data.topics
import random
import re
import tempfile

import lance
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from execution.search.corpora import (
    BY_ID,
    BY_TEXT,
    changed,
    compacted,
    created,
    extended,
    ids_of,
    indexed,
    naive_fuzzy,
    naive_phrase,
    naive_scores,
    naive_search,
    text_rows,
)
from omnigraph.execution.search.search_cache import SearchCache
from omnigraph.execution.search.text_search import (
    find_matching_rows,
    find_matching_text_ids,
    score_rows,
)
from omnigraph.plan.expressions import TextMode
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import open_table
from omnigraph.storage.tables.table_branches import create_branch
from storage.tables.table_fixtures import ulids

ALBUMS = {
    "tides": "Slow Tides",
    "embers": "Night Embers",
    "tidal": "Tidal Maps",
    "static": "Static Garden",
}


MEMORY = SearchCache()
"""Shared by all tests: its entries are keyed by the files of their tables."""


def search(table, query):
    return matched(table, TextMode.ANY_TERM, query)


def phrase(table, query):
    return matched(table, TextMode.PHRASE, query)


def fuzzy(table, query, distance=None):
    return matched(table, TextMode.FUZZY, query, distance)


def matched(table, mode, query, distance=None):
    ids = find_matching_text_ids(MEMORY, table, "text", mode, query, distance).to_pylist()
    assert len(set(ids)) == len(ids), "an id twice"
    assert ids_of(table, find_matching_rows(MEMORY, table, "text", mode, query, distance)) == ids
    return set(ids)


def scored(table, query):
    found = score_rows(MEMORY, table, "text", query)
    assert found.values.dtype == np.float64
    ids = ids_of(table, found.row_ids)
    assert len(set(ids)) == len(ids), "an id twice"
    return dict(zip(ids, found.values.tolist(), strict=True))


@pytest.fixture(params=["no index", "full index", "partial index"])
def albums(request, location):
    if request.param == "partial index":
        some = {id: ALBUMS[id] for id in ("tides", "static")}
        table = indexed(created(location, text_rows(some)), BY_TEXT)
        return changed(table, text_rows({id: ALBUMS[id] for id in ("embers", "tidal")}))
    table = created(location, text_rows(ALBUMS))
    return indexed(table, BY_TEXT, BY_ID) if request.param == "full index" else table


def test_case_and_inflection_do_not_matter(albums):
    assert search(albums, "TIDE") == {"tides"}
    assert search(albums, "gardens tiding") == {"static", "tides"}


def test_a_phrase_needs_its_words_next_to_each_other_and_in_order(albums):
    assert phrase(albums, "night embers") == {"embers"}
    assert phrase(albums, "embers night") == set()
    assert phrase(albums, "night maps") == set()
    assert phrase(albums, "Nights ember!") == {"embers"}


def test_a_misspelt_word_is_found(albums):
    assert fuzzy(albums, "embrs", 1) == {"embers"}
    assert fuzzy(albums, "embrs") == {"embers"}
    assert fuzzy(albums, "embers", 0) == {"embers"}
    assert fuzzy(albums, "embrs", 0) == set()


def test_only_rows_with_a_term_have_a_score(albums):
    assert set(scored(albums, "night")) == {"embers"}
    assert scored(albums, "nothing like it") == {}


def test_more_of_a_term_counts_more_and_a_longer_text_less(location):
    texts = {"b": "fox", "a": "fox", "c": "fox fox", "d": "a fox among many other long words"}
    found = scored(created(location, text_rows(texts)), "fox")
    assert found["c"] > found["a"] == found["b"] > found["d"]


def test_a_term_that_stands_in_a_text_very_often_is_counted_in_full(location):
    texts = {"often": "fox " * 70_000, "once": "fox", "never": "bird"}
    table = created(location, text_rows(texts))
    assert scored(table, "fox") == pytest.approx(naive_scores(texts, "fox"), rel=1e-12)


# --- what a word is -------------------------------------------------------------------------------


def one_text(location, text):
    return created(location, text_rows({"x": text, "other": "unrelated"}))


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("André Breton", "andre"),
        ("Andre Breton", "André"),
        ("my résumés", "resume"),
        ("Beyoncé", "BEYONCE"),
        ("e\u0301clair", "éclair"),
        ("Straße", "strasse"),
        ("Ærøskøbing", "aeroskobing"),
        ("İstanbul", "istanbul"),
        ("Łódź", "lodz"),
        ("ﬁne", "fine"),
        ("Ⅷ", "viii"),
        ("ＦＵＬＬ width", "full"),
        ("日本語", "日本語"),
        ("мой дом", "ДОМ"),
        ("don't", "don't"),
        ("rock'n'roll", "roll"),
        ("foo_bar-baz", "bar"),
        ("version 3.14", "14"),
        ("x1y2", "X1Y2"),
        ("emoji 😀 smile", "smile"),
        ("a" * 200, "A" * 200),
        ("nul\x00byte", "byte"),
    ],
)
def test_these_are_found(location, text, query):
    assert search(one_text(location, text), query) == {"x"}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the who", "who"),  # nothing but stop words
        ("foobar", "foo"),
        ("мой", "мои"),  # accents are taken off Latin letters only
        ("night", ""),
        ("night", "?!"),
        (None, "null"),
        ("", "x"),
    ],
)
def test_these_are_not_found(location, text, query):
    table = one_text(location, text)
    assert search(table, query) == set()
    assert phrase(table, query) == set()
    assert fuzzy(table, query, 0) == set()
    assert scored(table, query) == {}


def test_a_stop_word_leaves_a_gap_of_one_word_in_a_phrase(location):
    texts = {
        "of": "night of the embers",
        "with": "night without any embers",
        "none": "night embers",
    }
    table = created(location, text_rows(texts))
    assert phrase(table, "night of the embers") == {"of", "with"}
    assert phrase(table, "the night embers of") == {"none"}


def test_a_phrase_does_not_run_from_one_row_into_the_next(location):
    table = created(location, text_rows({"a": "slow night", "b": "embers glow"}))
    assert phrase(table, "night embers") == set()


def test_a_word_that_looks_close_is_close_even_if_its_stem_is_not(location):
    table = one_text(location, "national")
    assert fuzzy(table, "nationel", 1) == {"x"}


def test_edits_count_characters_not_bytes(location):
    table = one_text(location, "дома")
    assert fuzzy(table, "дома", 0) == {"x"}
    assert fuzzy(table, "тома", 1) == {"x"}
    assert fuzzy(table, "том", 1) == set()


# --- the same answer, whatever the table is made of -----------------------------------------------

WORDS = re.findall(
    r"\S+",
    "night nights nightly ember embers embrs tide tides tidal tiding map maps mapped garden "
    "gardening slow slowly slower static national nation nationel the of and a to who "
    "André andre Andrés café naïve straße 3 14 x1 日本 дом don't o'clock",
)
texts_of_words = st.one_of(
    st.none(),
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join),
    st.text(max_size=12),
)
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)


def assert_naive_answers(table, texts, query, distance):
    assert search(table, query) == naive_search(texts, query)
    assert phrase(table, query) == naive_phrase(texts, query)
    assert fuzzy(table, query, distance) == naive_fuzzy(texts, query, distance)
    found = scored(table, query)
    assert found == pytest.approx(naive_scores(texts, query), rel=1e-12)
    return found


@settings(max_examples=25)
@given(data=st.data())
def test_random_histories_give_the_naive_answer(data):
    ids = [f"d{n}" for n in range(12)]
    some_texts = st.dictionaries(st.sampled_from(ids), texts_of_words, min_size=1, max_size=8)
    texts = data.draw(some_texts)
    with tempfile.TemporaryDirectory() as folder:
        table = created(TableLocation(f"{folder}/table"), text_rows(texts))
        for _ in range(data.draw(st.integers(1, 5))):
            table, texts = changed_somehow(data, table, texts, some_texts)
            query, distance = data.draw(queries), data.draw(st.integers(0, 3))
            warm = assert_naive_answers(table, texts, query, distance)
            MEMORY.clear()
            assert scored(table, query) == warm


def changed_somehow(data, table, texts, some_texts):
    step = data.draw(st.sampled_from(["write", "delete", "index", "extend", "compact", "branch"]))
    if step == "write":
        upserts = data.draw(some_texts)
        return changed(table, text_rows(upserts)), {**texts, **upserts}
    if step == "delete" and texts:
        doomed = data.draw(st.lists(st.sampled_from(sorted(texts)), unique=True, max_size=4))
        kept = {id: text for id, text in texts.items() if id not in doomed}
        return (changed(table, text_rows({}), doomed) if doomed else table), kept
    if step == "index":
        return indexed(table, BY_TEXT), texts
    if step == "extend":
        return extended(table), texts
    if step == "compact":
        return compacted(table), texts
    if step == "branch":
        name = ulids.next()
        location = table.location
        create_branch(location, name, location.branch, table.version)
        return open_table(location.on_branch(name), table.version), texts
    return table, texts


def test_branches_and_old_versions_keep_their_own_answers(location):
    first = created(location, text_rows({"a": "red fox", "b": "blue fox", "c": "green bird"}))
    name = ulids.next()
    create_branch(location, name, None, first.version)
    forked = open_table(location.on_branch(name), first.version)
    on_main = changed(first, text_rows({"d": "fox"}), ["a"])
    on_branch = changed(forked, text_rows({"b": "bird"}), ["c"])
    for _ in range(2):
        assert search(on_main, "fox") == {"b", "d"}
        assert search(on_branch, "fox") == {"a"}
        assert search(on_branch, "bird") == {"b"}
        assert search(first, "fox") == {"a", "b"}
        assert scored(first, "fox") == pytest.approx(
            naive_scores({"a": "red fox", "b": "blue fox", "c": "green bird"}, "fox")
        )


def test_scores_do_not_change_when_a_table_is_rewritten(location):
    texts = {f"d{n}": f"fox number {n} {'and more ' * (n % 7)}" for n in range(50)}
    table = created(location, text_rows(texts))
    table = changed(table, text_rows({}), [f"d{n}" for n in range(0, 50, 5)])
    expected = scored(table, "fox 7")
    table = indexed(table, BY_TEXT)
    assert scored(table, "fox 7") == expected
    assert scored(compacted(table), "fox 7") == expected


# --- against the table format's own full-text index -----------------------------------------------


def test_plain_english_is_matched_like_the_table_formats_index_matches_it(location):
    lines = {
        line.strip() for text in pydoc_data.topics.topics.values() for line in text.split("\n")
    }
    texts = {f"d{n}": line for n, line in enumerate(sorted(filter(str.isascii, lines)))}
    table = indexed(created(location, text_rows(texts)), BY_TEXT)
    rng = random.Random(4)
    vocabulary = sorted({word for text in texts.values() for word in re.findall(r"\w+", text)})
    for word in rng.sample(vocabulary, 150):
        if not is_plain(word):
            continue
        native = table.native.to_table(
            columns=["id", "_score"], full_text_query=lance.query.MatchQuery(word, "text")
        )
        assert search(table, word) == set(native.column("id").to_pylist()), word


def is_plain(word: str) -> bool:
    """Neither it nor its stem is a stop word: the index tests the stem, the engine the word."""
    pieces = lance.tokenize(word, remove_stop_words=False)
    kept = [lance.tokenize(word), lance.tokenize(word, stem=False)]
    return all(len(found) == len(pieces) for found in kept)


# --- large tables ---------------------------------------------------------------------------------


def test_a_table_of_many_pieces_is_searched_as_one(location, monkeypatch):
    monkeypatch.setattr("omnigraph.storage.tables.indices.ROWS_PER_PIECE", 7)
    texts = {f"d{n:03}": f"fox {n} {'tail ' * (n % 3)}" for n in range(100)}
    table = created(location, text_rows(texts))
    table = changed(table, text_rows({"new": "fox"}), ["d003", "d050", "d099"])
    for doomed in ("d003", "d050", "d099"):
        del texts[doomed]
    texts["new"] = "fox"
    for query in ("fox", "tail 12", "tail 3"):
        assert_naive_answers(table, texts, query, 1)
