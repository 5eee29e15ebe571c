"""Words within a few edits."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from execution.search.corpora import levenshtein
from omnigraph.execution.search.text_search import match_within_distance

words = st.text(alphabet="abcdeé日😀", max_size=8)


@given(st.lists(words, max_size=20), words, st.integers(0, 4))
def test_it_is_the_levenshtein_distance(some, wanted, most):
    found = match_within_distance(pa.array(some, pa.string()), wanted, most)
    assert found.tolist() == [levenshtein(word, wanted) <= most for word in some]


def test_many_words_are_measured_in_portions():
    words = pa.array([f"w{n}" for n in range(70_000)])
    found = match_within_distance(words, "w69999", 0)
    assert found.nonzero()[0].tolist() == [69_999]
