"""A graph of documents with text and vectors, for search and retrieval.

Words follow Zipf's law; each document has a topic that lends it half its words and the middle of
its vector's cluster. `bucket` is spread evenly over 0 to 999, so that `bucket = 7` selects a
thousandth and `bucket < 10` a hundredth of the documents of any topic. Citations go
to older documents, mostly of the same topic and mostly to the oldest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.generators.draw import (
    Draw,
    Integers,
    distinct_choices,
    distinct_sorted,
    next_prime,
    positions,
)
from bench.generators.names import FIRST_NAMES, made_up_names, made_up_words
from bench.generators.tables import GraphTables, coded_ids, columns, dates, picked

DEFAULT_DIMENSION = 128
TOPICS = 40
TAGS = 97  # a prime, as `distinct_choices` asks

_COMMON_WORDS = 10_000
_TOPIC_WORDS = 250
_WORDS = _COMMON_WORDS + TOPICS * _TOPIC_WORDS
_CITATIONS_DRAWN = 7
_FIRST_DAY = (date(2010, 1, 1) - date(1970, 1, 1)).days
_DAYS = 5_475
# Vector elements are whole multiples of this: exact in 32 bits and short as decimal text.
_GRID = 1024
_SCHEMA = Path(__file__).with_suffix(".pg").read_text()


@dataclass(frozen=True, slots=True)
class _Library:
    """State shared by the parts of the graph."""

    seed: int
    documents: int
    authors: int
    topic: Integers

    def draw(self, name: str) -> Draw:
        return Draw(self.seed, name)


def schema_text(dimension: int = DEFAULT_DIMENSION) -> str:
    """The schema for vectors of `dimension` elements."""
    return _SCHEMA.replace(f"Vector({DEFAULT_DIMENSION})", f"Vector({dimension})")


def document_graph(seed: int, documents: int, dimension: int = DEFAULT_DIMENSION) -> GraphTables:
    """`documents` documents and what belongs to them; equal arguments give equal bytes."""
    if documents < 10:
        raise ValueError(f"a document graph needs at least 10 documents, not {documents}")
    library = _Library(
        seed=seed,
        documents=documents,
        authors=next_prime(max(documents // 5, 5)),
        topic=Draw(seed, "topic").square(documents, TOPICS),
    )
    return GraphTables(
        schema_text=schema_text(dimension),
        nodes={
            "Document": _document_table(library, dimension),
            "Author": _author_table(library),
            "Tag": columns(name=pa.array(_tag_names())),
        },
        edges={
            "Wrote": _wrote_table(library),
            "Cites": _cites_table(library),
            "HasTag": _tag_table(library),
        },
        keys={"Document": "slug", "Author": "handle", "Tag": "name"},
        endpoints={
            "Wrote": ("Author", "Document"),
            "Cites": ("Document", "Document"),
            "HasTag": ("Document", "Tag"),
        },
    )


def _document_table(library: _Library, dimension: int) -> pa.Table:
    count = library.documents
    days = np.arange(count, dtype=np.int64) * _DAYS // count
    keywords, offsets = _word_lists(library, "keywords", 3, 3)
    return columns(
        slug=coded_ids("d", np.arange(count, dtype=np.int64)),
        title=_text(library, "title", 4, 8),
        body=_text(library, "body", 40, 120),
        topic=pa.array(library.topic.astype(np.int32)),
        bucket=pa.array(library.draw("bucket").integers(count, 1000).astype(np.int32)),
        published=dates(_FIRST_DAY + days),
        keywords=pa.ListArray.from_arrays(offsets, keywords),
        embedding=_embeddings(library, dimension),
    )


def _text(library: _Library, name: str, shortest: int, longest: int) -> pa.Array:
    words, offsets = _word_lists(library, name, shortest, longest)
    return pc.binary_join(pa.ListArray.from_arrays(offsets, words), " ")


def _word_lists(
    library: _Library, name: str, shortest: int, longest: int
) -> tuple[pa.Array, pa.Array]:
    """All the words of a column in a row, and where each document's words begin.

    A word is common to all topics or belongs to the document's topic, with even chances.
    """
    lengths = library.draw(f"{name} length").integers(library.documents, longest - shortest + 1)
    lengths += shortest
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    topic = np.repeat(library.topic, lengths)
    total = len(topic)
    common = library.draw(f"{name} common").zipf(total, _COMMON_WORDS)
    special = library.draw(f"{name} special").zipf(total, _TOPIC_WORDS)
    is_special = library.draw(f"{name} kind").integers(total, 2).astype(np.bool_)
    chosen = np.where(is_special, _COMMON_WORDS + topic * _TOPIC_WORDS + special, common)
    words = picked(made_up_words(_WORDS), chosen)
    return words, pa.array(offsets.astype(np.int32))


def _embeddings(library: _Library, dimension: int) -> pa.Array:
    """A vector near the middle of its topic, on a grid that every format stores exactly."""
    middles = library.draw("topic middle").normal(TOPICS * dimension).reshape(TOPICS, dimension)
    noise = library.draw("embedding").normal(library.documents * dimension)
    values = 0.5 * middles[library.topic].ravel() + 0.4 * noise
    grid = (np.rint(values * _GRID) / _GRID).astype(np.float32)
    return pa.FixedSizeListArray.from_arrays(pa.array(grid), dimension)


def _author_table(library: _Library) -> pa.Table:
    count = library.authors
    first = picked(FIRST_NAMES, library.draw("author first").integers(count, len(FIRST_NAMES)))
    last = picked(made_up_names(400), library.draw("author last").integers(count, 400))
    number = np.arange(count, dtype=np.int64)
    has_orcid = pa.array(library.draw("orcid").integers(count, 3) > 0)
    orcid = pc.if_else(has_orcid, coded_ids("0000-0", number), pa.scalar(None, pa.string()))
    return columns(
        ("orcid",),
        handle=coded_ids("a", number),
        name=pc.binary_join_element_wise(first, last, " "),
        orcid=orcid,
    )


def _wrote_table(library: _Library) -> pa.Table:
    """One to four authors a document, a few of whom write a great deal."""
    counts = 1 + library.draw("author count").integers(library.documents, 4)
    first = library.draw("first author").square(library.documents, library.authors)
    stride = library.draw("author stride")
    documents, authors = distinct_choices(stride, counts, first, library.authors)
    return columns(
        src=coded_ids("a", authors),
        dst=coded_ids("d", documents),
        position=pa.array((positions(counts) + 1).astype(np.int32)),
    )


def _cites_table(library: _Library) -> pa.Table:
    """About seven older documents each, most of them of the same topic."""
    count = library.documents
    citing = np.repeat(np.arange(1, count, dtype=np.int64), _CITATIONS_DRAWN)
    within = _older_in_topic(library, citing)
    anywhere = _older(library.draw("cites anywhere"), citing)
    stays = library.draw("cites within").integers(len(citing), 10) < 7
    cited = np.where(stays & (within >= 0), within, anywhere)
    codes = distinct_sorted(citing * count + cited)
    return columns(src=coded_ids("d", codes // count), dst=coded_ids("d", codes % count))


def _older(draw: Draw, limits: Integers) -> Integers:
    """For each limit a number below it, small ones more often; -1 if there is none."""
    u = draw.uniform(len(limits))
    return np.minimum((u * u * limits).astype(np.int64), limits - 1)


def _older_in_topic(library: _Library, citing: Integers) -> Integers:
    """For each citing document an older one of its topic, or -1 for the first of a topic."""
    by_topic = np.argsort(library.topic, kind="stable")
    sizes = np.bincount(library.topic, minlength=TOPICS).astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    index = np.empty(library.documents, dtype=np.int64)
    index[by_topic] = positions(sizes)
    older = _older(library.draw("cites in topic"), index[citing])
    found = by_topic[np.maximum(starts[library.topic[citing]] + older, 0)]
    return np.where(older >= 0, found, -1)


def _tag_table(library: _Library) -> pa.Table:
    """One to three tags a document; documents of a topic share their first one."""
    counts = 1 + library.draw("tag count").integers(library.documents, 3)
    stride = library.draw("tag stride")
    documents, tags = distinct_choices(stride, counts, library.topic, TAGS)
    return columns(src=coded_ids("d", documents), dst=picked(_tag_names(), tags))


def _tag_names() -> list[str]:
    return made_up_words(TAGS, offset=22_000)
