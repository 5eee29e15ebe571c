"""Tables of texts and vectors, ways to change them, and the same searches done naively."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

import lance
import numpy as np
import pyarrow as pa

from lance_maintenance import compact, optimize_indices
from omnigraph.storage.tables.indices import IndexSpec, LanceIndexKind
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_changes, stage_create
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import identity, stage_indices

BY_ID = IndexSpec("by_id", "id", LanceIndexKind.BTREE)
BY_TEXT = IndexSpec("words", "text", LanceIndexKind.INVERTED)


def by_vector(
    partitions: int = 1, kind: LanceIndexKind = LanceIndexKind.IVF_FLAT, **options
) -> IndexSpec:
    return IndexSpec(
        "near", "vector", kind, {"num_partitions": partitions, "metric": "l2", **options}
    )


# --- tables ---------------------------------------------------------------------------------------


def text_rows(texts: Mapping[str, str | None]) -> pa.Table:
    schema = mark_primary_key(
        pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("text", pa.string())]),
        "id",
    )
    return pa.table({"id": list(texts), "text": list(texts.values())}, schema=schema)


def vector_rows(vectors: Mapping[str, Sequence[float] | None], dimension: int) -> pa.Table:
    kind = pa.list_(pa.field("item", pa.float32(), nullable=True), dimension)
    schema = mark_primary_key(
        pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("vector", kind)]), "id"
    )
    values = [None if v is None else np.asarray(v, np.float32) for v in vectors.values()]
    return pa.table({"id": list(vectors), "vector": pa.array(values, kind)}, schema=schema)


def created(location: TableLocation, rows: pa.Table) -> Table:
    return commit_exact(stage_create(location, rows.schema, rows, **identity())).table


def changed(table: Table, upserts: pa.Table, deletes: Sequence[str] = ()) -> Table:
    doomed = pa.array(list(deletes), pa.string())
    return commit_exact(stage_changes(table, upserts, doomed, **identity())).table


def indexed(table: Table, *specs: IndexSpec) -> Table:
    staged = stage_indices(table, specs, **identity())
    return table if staged is None else commit_exact(staged).table


def extended(table: Table) -> Table:
    """With the indices extended over rows they did not cover."""
    return open_table(table.location, optimize_indices(table))


def compacted(table: Table) -> Table:
    return open_table(table.location, compact(table).version)


def ids_of(table: Table, row_ids: np.ndarray) -> list[str]:
    """The ids of the rows with these row ids, in that order."""
    if not len(row_ids):
        return []
    found = table.take_row_ids(pa.array(row_ids, pa.uint64()), ["id"])
    assert found.num_rows == len(row_ids), "a row that is not there"
    return found.column("id").to_pylist()


def row_ids_of(table: Table, ids: Sequence[str]) -> np.ndarray:
    """The row ids of the existing rows with these ids, in no particular order."""
    rows = table.scan(["id"], with_row_id=True).to_pydict()
    known = dict(zip(rows["id"], rows["_rowid"], strict=True))
    return np.asarray([known[id] for id in set(ids) if id in known], np.int64)


# --- text, one document at a time -----------------------------------------------------------------


def naive_words(text: str) -> list[str]:
    """Accents off, then letter by letter as the table format splits and folds."""
    decomposed = unicodedata.normalize("NFKD", text)
    plain = re.sub("([A-Za-z])[\u0300-\u036f]+", r"\1", decomposed)
    tokens = lance.tokenize(
        unicodedata.normalize("NFC", plain),
        stem=False,
        remove_stop_words=False,
        max_token_length=None,
    )
    return [token.text.lower() for token in tokens]


def naive_term(word: str) -> str | None:
    """The stem of a word, or None for a stop word."""
    if not lance.tokenize(word, stem=False, max_token_length=None):
        return None
    (token,) = lance.tokenize(word, remove_stop_words=False, max_token_length=None)
    return token.text


def naive_terms(text: str) -> list[str | None]:
    return [naive_term(word) for word in naive_words(text)]


def naive_search(texts: Mapping[str, str | None], query: str) -> set[str]:
    wanted = set(naive_terms(query)) - {None}
    return {
        id for id, text in texts.items() if text is not None and wanted & set(naive_terms(text))
    }


def naive_phrase(texts: Mapping[str, str | None], query: str) -> set[str]:
    wanted = [(place, term) for place, term in enumerate(naive_terms(query)) if term is not None]
    if not wanted:
        return set()

    def matches(text: str) -> bool:
        terms = naive_terms(text)
        first = wanted[0][0]
        return any(
            all(
                0 <= start + place - first < len(terms) and terms[start + place - first] == term
                for place, term in wanted
            )
            for start in range(len(terms))
        )

    return {id for id, text in texts.items() if text is not None and matches(text)}


def naive_fuzzy(texts: Mapping[str, str | None], query: str, distance: int) -> set[str]:
    def close(word: str, other: str) -> bool:
        term, other_term = naive_term(word), naive_term(other)
        if term is None or other_term is None:
            return False
        return levenshtein(word, other) <= distance or levenshtein(term, other_term) <= distance

    wanted = naive_words(query)
    return {
        id
        for id, text in texts.items()
        if text is not None and any(close(w, o) for w in wanted for o in naive_words(text))
    }


def levenshtein(first: str, second: str) -> int:
    above = list(range(len(second) + 1))
    for row, letter in enumerate(first, 1):
        here = [row]
        for column, other in enumerate(second, 1):
            here.append(min(above[column] + 1, here[-1] + 1, above[column - 1] + (letter != other)))
        above = here
    return above[-1]


def naive_scores(texts: Mapping[str, str | None], query: str) -> dict[str, float]:
    documents = {
        id: Counter(t for t in naive_terms(text) if t is not None)
        for id, text in texts.items()
        if text is not None
    }
    average = sum(d.total() for d in documents.values()) / max(1, len(documents))
    scores: dict[str, float] = {}
    for term in dict.fromkeys(t for t in naive_terms(query) if t is not None):
        having = [id for id, counts in documents.items() if term in counts]
        rarity = math.log(1 + (len(documents) - len(having) + 0.5) / (len(having) + 0.5))
        for id in having:
            often, length = documents[id][term], documents[id].total()
            part = often * 2.2 / (often + 1.2 * (0.25 + 0.75 * length / average))
            scores[id] = scores.get(id, 0.0) + rarity * part
    return scores
