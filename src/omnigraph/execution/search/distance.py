"""Which of many words are a few edits away from one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags = npt.NDArray[np.bool_]

_WORDS_AT_A_TIME = 1 << 15


def match_within_distance(words: pa.Array, wanted: str, most: int) -> Flags:
    """For each word, whether `most` edits or fewer make it the wanted one.

    An edit inserts, deletes or replaces one character.
    """
    lengths = pc.utf8_length(words).to_numpy().astype(np.int64)
    near = np.flatnonzero(np.abs(lengths - len(wanted)) <= most)
    found = np.zeros(len(words), np.bool_)
    for start in range(0, len(near), _WORDS_AT_A_TIME):
        some = near[start : start + _WORDS_AT_A_TIME]
        close = _close(words.take(pa.array(some)).to_pylist(), lengths[some], wanted, most)
        found[some[close]] = True
    return found


def _close(
    words: list[str], lengths: npt.NDArray[np.int64], wanted: str, most: int
) -> npt.NDArray[np.int64]:
    """The numbers of the words that are close enough, all of them read a letter at a time.

    `costs` holds, for each word still in question, the edits from what was read of it to each
    beginning of the wanted word. Its least cost never falls again, so most words drop out soon.
    """
    letters, goal = _encode_letters(words), _encode_letters([wanted])[0][: len(wanted)]
    steps = np.arange(len(goal) + 1, dtype=np.int32)
    costs = np.broadcast_to(steps, (len(words), len(goal) + 1))
    open_words = np.arange(len(words))
    close = []
    for read in range(letters.shape[1] + 1):
        ended = lengths[open_words] == read
        close.append(open_words[ended & (costs[:, -1] <= most)])
        still = ~ended & (costs.min(axis=1) <= most)
        open_words, costs = open_words[still], costs[still]
        if not len(open_words):
            break
        costs = _read_letter(costs, letters[open_words, read], goal, steps)
    return np.concatenate(close)


def _read_letter(
    costs: npt.NDArray[np.int32],
    letters: npt.NDArray[np.uint32],
    goal: npt.NDArray[np.uint32],
    steps: npt.NDArray[np.int32],
) -> npt.NDArray[np.int32]:
    """The costs when one more letter of each word is read."""
    further = costs + 1
    np.minimum(further[:, 1:], costs[:, :-1] + (letters[:, None] != goal), out=further[:, 1:])
    # An insertion costs one more than the cell to the left, which may itself be an insertion.
    least: npt.NDArray[np.int32] = np.minimum.accumulate(further - steps, axis=1) + steps
    return least


def _encode_letters(words: list[str]) -> npt.NDArray[np.uint32]:
    """The code points of each word in a row, filled up with zeros."""
    longest = max(1, *map(len, words))
    array = np.array(words, dtype=f"<U{longest}")
    return array.view(np.uint32).reshape(len(words), longest)
