"""Words and names that are made up, distinct, and left alone by a text analyser.

Every word ends in a letter that English stemming never removes and that no stop word ends in,
so two engines with different analysers still see the same terms.
"""

from __future__ import annotations

from pathlib import Path


def _lines(name: str) -> list[str]:
    return (Path(__file__).parent / "words" / name).read_text().splitlines()


_CONSONANTS = "bdfghklmnprstvwz"
_SYLLABLES = [consonant + vowel for consonant in _CONSONANTS for vowel in "aeiou"]
_ENDINGS = "kpxz"
_WORDS = len(_SYLLABLES) ** 2 * len(_ENDINGS)
# Shares no factor with the number of words, so each word is reached once, in a mixed order.
_STEP = 9973

FIRST_NAMES = _lines("first_names.txt")
INTERESTS = _lines("interests.txt")


def made_up_words(count: int, offset: int = 0) -> list[str]:
    """`count` distinct words, starting `offset` words into the language."""
    if offset + count > _WORDS:
        raise ValueError(f"the made-up language has only {_WORDS} words")
    return [_word((index * _STEP) % _WORDS) for index in range(offset, offset + count)]


def made_up_names(count: int, offset: int = 0) -> list[str]:
    """Distinct capitalised words, for surnames and places."""
    return [word.capitalize() for word in made_up_words(count, offset)]


def _word(code: int) -> str:
    rest, ending = divmod(code, len(_ENDINGS))
    first, second = divmod(rest, len(_SYLLABLES))
    return _SYLLABLES[first] + _SYLLABLES[second] + _ENDINGS[ending]
