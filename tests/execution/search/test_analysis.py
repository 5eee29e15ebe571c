"""Words and terms of texts."""

from __future__ import annotations

import sys
import unicodedata

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from execution.search.corpora import naive_term, naive_words
from omnigraph.execution.search.inverted_index import (
    QueryWord,
    find_terms,
    fold_to_ascii,
    parse_query_terms,
    parse_query_words,
    split_text,
)
from omnigraph.storage.tables.indices import split_words

any_text = st.text(max_size=30) | st.text(alphabet="aIİıßéǅ'_ \u0301\u0307ऀ्ΣσςĿ½⑴", max_size=10)


def test_the_words_of_a_query_keep_their_places_and_lose_the_common_ones():
    assert parse_query_words("The nights of Embers") == (
        QueryWord("nights", "night", 1),
        QueryWord("embers", "ember", 3),
    )


def test_a_term_counts_once():
    assert parse_query_terms("Tides tide the TIDES ebb") == ("tide", "ebb")
    assert parse_query_terms("the of and") == ()


@given(any_text)
def test_accents_and_the_way_they_are_written_do_not_matter(text):
    assert split_text(text) == [word.replace("i̇", "i") for word in naive_words(text)]


def test_every_letter_of_unicode_gives_words_that_are_words():
    """A word cut once more is itself: only then has each word of a vocabulary one stem."""
    for letter in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(letter)[0] in "LMN":
            for word in split_text(letter):
                assert split_words(word) == [word], f"U+{ord(letter):04X}"


@given(any_text)
def test_every_text_gives_words_that_are_words(text):
    words = split_text(text)
    assert [split_words(word) for word in words] == [[word] for word in words]


@given(st.lists(st.none() | any_text, max_size=6))
def test_plain_texts_have_the_same_words(texts):
    plain = fold_to_ascii(pa.array(texts, pa.large_string())).to_pylist()
    assert [split_text(text) for text in plain] == [split_text(text or "") for text in texts]


@given(st.lists(any_text, max_size=6))
def test_each_word_of_a_vocabulary_has_its_term(texts):
    words = sorted({word for text in texts for word in split_text(text)})
    assert find_terms(pa.array(words, pa.large_string())).to_pylist() == list(
        map(naive_term, words)
    )
