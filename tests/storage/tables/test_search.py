"""Pieces of columns, words and nearest rows, as searching reads them."""

from __future__ import annotations

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_maintenance import compact
from omnigraph.storage.tables.indices import (
    DELETED,
    DISTANCE,
    IndexSpec,
    LanceIndexKind,
    drop_stop_words,
    find_nearest,
    has_lossy_index,
    read_piece,
    read_row_ids,
    split_column,
    split_words,
    stem_words,
)
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.stage_table import stage_create
from omnigraph.storage.tables.table import ROW_ID, open_table
from omnigraph.storage.tables.table_branches import create_branch
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables.table_fixtures import change, create, identity, stage_indices, ulids

COLUMNS = ["id", "value"]


def live_content(table):
    """Return the content of the live rows of all pieces."""
    found = {}
    for piece in split_column(table, COLUMNS):
        rows = read_piece(table, piece, COLUMNS).to_pylist()
        for row, row_id in zip(rows, read_row_ids(table, piece), strict=True):
            if row_id != DELETED:
                found[row["id"]] = row["value"]
    return found


def test_the_live_rows_of_the_pieces_are_the_table(location):
    table = create(location, {f"r{n}": n for n in range(10)})
    table = change(table, {"r3": 33, "new": 1}, ("r5",))
    assert live_content(table) == {**{f"r{n}": n for n in range(10) if n != 5}, "r3": 33, "new": 1}


def test_a_piece_holds_deleted_rows_too(location):
    table = change(create(location, {"a": 1, "b": 2}), {}, ("a",))
    (piece,) = split_column(table, COLUMNS)
    assert read_piece(table, piece, COLUMNS).to_pydict() == {"id": ["a", "b"], "value": [1, 2]}
    assert read_row_ids(table, piece).tolist() == [DELETED, 1]


def test_an_unchanged_file_keeps_its_name_in_later_versions_and_on_branches(location):
    first = create(location, {"a": 1, "b": 2})
    later = change(first, {"c": 3}, ("a",))
    name = ulids.next()
    create_branch(location, name, None, first.version)
    forked = open_table(location.on_branch(name), first.version)
    (piece,) = split_column(first, COLUMNS)
    assert piece.content == split_column(later, COLUMNS)[0].content
    assert piece.content == split_column(forked, COLUMNS)[0].content
    assert piece.deletions is None
    assert split_column(later, COLUMNS)[0].deletions is not None


def test_other_deletions_have_another_name(location):
    first = change(create(location, {"a": 1, "b": 2, "c": 3}), {}, ("a",))
    second = change(first, {}, ("b",))
    names = [split_column(table, COLUMNS)[0].deletions for table in (first, second)]
    assert len(set(names)) == 2


def test_a_rewritten_file_has_another_name(location):
    table = change(create(location, {"a": 1, "b": 2}), {"c": 3})
    rewritten = open_table(location, compact(table).version)
    before = {piece.content for piece in split_column(table, COLUMNS)}
    after = {piece.content for piece in split_column(rewritten, COLUMNS)}
    assert before.isdisjoint(after)


def test_long_fragments_are_cut(location, monkeypatch):
    monkeypatch.setattr("omnigraph.storage.tables.indices.ROWS_PER_PIECE", 4)
    table = change(create(location, {f"r{n}": n for n in range(10)}), {}, ("r4", "r9"))
    pieces = split_column(table, COLUMNS)
    assert [(piece.start, piece.rows) for piece in pieces] == [(0, 4), (4, 4), (8, 2)]
    assert len({piece.content for piece in pieces}) == 3
    assert live_content(table) == {f"r{n}": n for n in range(10) if n not in (4, 9)}


# --- words ----------------------------------------------------------------------------------------


def test_words_are_lower_case_and_folded():
    assert split_words("The café's, O'Neil x1y2—ŒUVRE") == [
        *("the", "cafe", "s", "o", "neil", "x1y2", "oeuvre"),
    ]


def test_long_words_stay():
    assert split_words("a" * 500) == ["a" * 500]


def test_each_word_has_one_stem():
    assert stem_words(["tides", "running", "skies", "日本", "the"]) == [
        "tide",
        "run",
        "sky",
        "日本",
        "the",
    ]
    assert stem_words([]) == []


def test_stop_words_are_distinguished():
    assert drop_stop_words(["the", "night", "of", "above"]) == {"night"}


def test_tokens_of_the_table_format_equal_those_of_its_index(tmp_path):
    """The words come from a function of Lance; its index must agree with it."""
    texts = ["Slow tides rising", "the skies were dying", "x1y2 foo_bar don't"]
    data = pa.table({"id": list("abc"), "text": texts})
    native = lance.write_dataset(data, str(tmp_path / "t"), data_storage_version="2.2")
    native.create_scalar_index("text", "INVERTED")
    for id, text in zip("abc", texts, strict=True):
        for token in lance.tokenize(text, stem=False):
            found = native.to_table(
                columns=["id", "_score"], full_text_query=lance.query.MatchQuery(token.text, "text")
            )
            assert id in found.column("id").to_pylist(), token.text


# --- vectors --------------------------------------------------------------------------------------


@pytest.fixture
def vectors(location):
    kind = pa.list_(pa.float32(), 2)
    schema = mark_primary_key(
        pa.schema([pa.field("id", pa.string()), pa.field("vector", kind)]), "id"
    )
    values = [None if n == 3 else [float(n), 0.0] for n in range(400)]
    rows = pa.table({"id": [f"r{n:03}" for n in range(400)], "vector": values}, schema=schema)
    return commit_exact(stage_create(location, schema, rows, **identity())).table


def indexed(table, kind, **options):
    spec = IndexSpec("near", "vector", kind, {"num_partitions": 4, "metric": "l2", **options})
    return commit_exact(stage_indices(table, [spec], **identity())).table


@pytest.mark.parametrize("is_indexed", [False, True])
def test_the_nearest_rows_come_with_vector_and_squared_distance(vectors, is_indexed):
    table = indexed(vectors, LanceIndexKind.IVF_FLAT) if is_indexed else vectors
    found = find_nearest(table, "vector", np.array([2, 0], np.float32), 4)
    nearest = table.take_row_ids(found.column(ROW_ID), ["id"])
    assert nearest.column("id").to_pylist()[0] == "r002"
    assert found.column(DISTANCE).to_pylist() == [0, 1, 4, 4]
    assert found.column("vector").to_pylist()[0] == [2, 0]


def test_only_some_kinds_of_index_drop_detail(vectors):
    assert not has_lossy_index(vectors, "vector")
    table = indexed(vectors, LanceIndexKind.IVF_FLAT)
    assert not has_lossy_index(table, "vector")
    table = indexed(table, LanceIndexKind.IVF_PQ, num_sub_vectors=1)
    assert has_lossy_index(table, "vector")
    found = find_nearest(table, "vector", np.array([2, 0], np.float32), 4)
    assert found.column(DISTANCE).to_pylist() == [0, 1, 4, 4]
