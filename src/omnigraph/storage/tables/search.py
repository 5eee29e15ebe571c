"""What searching needs of a table: columns in pieces that never change, words, nearest vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.storage.tables.indices import LanceIndexKind, describe_indices
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.table import ROW_ID, Table

DISTANCE = "_distance"
"""The column of squared distances, in single precision, that a vector search adds."""

ROWS_PER_PIECE = 1 << 17
"""So many rows are turned around at a time; more would only raise the peak of memory."""

DELETED = -1
"""Stands where a row that is deleted would have its row id."""

_ALL_PARTITIONS = 1 << 20
"""Asking for more partitions than there are means all of them."""
_REFINE = 100
"""How many times more candidates than wanted a lossy index gives to be measured exactly."""
_EXACT_INDEX = str(LanceIndexKind.IVF_FLAT)


# --- columns in pieces ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnPiece:
    """Consecutive rows of one fragment, deleted ones included, as they are in its files.

    Two pieces with one `content` hold the same rows for ever, in whatever version or branch they
    are met. `deletions` names the list of deleted rows; it is None where all rows live.
    """

    content: tuple[object, ...]
    deletions: str | None
    fragment: int
    start: int
    rows: int


def split_column(table: Table, columns: Sequence[str]) -> tuple[ColumnPiece, ...]:
    """The table cut into pieces, from metadata alone."""
    with translate_errors(f"listing the files of {table!r}"):
        fields = {field.name(): field.id() for field in table.native.lance_schema.fields()}
        wanted = tuple(fields[name] for name in columns)
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
    return tuple(
        piece for metadata in fragments for piece in _split_fragment(table, metadata, wanted)
    )


def _split_fragment(
    table: Table, metadata: lance.FragmentMetadata, fields: tuple[int, ...]
) -> list[ColumnPiece]:
    files = [f.path for f in metadata.files if not set(fields).isdisjoint(f.fields)]
    # Overlays, which we never write, would change values without touching the files.
    content = (table.location.uri, fields, *files, *map(str, metadata.overlays))
    deleted = metadata.deletion_file
    deletions = deleted.path(metadata.id) if deleted is not None else None
    return [
        ColumnPiece(
            content=(*content, start),
            deletions=deletions,
            fragment=metadata.id,
            start=start,
            rows=min(ROWS_PER_PIECE, metadata.physical_rows - start),
        )
        for start in range(0, metadata.physical_rows, ROWS_PER_PIECE)
    ]


def read_piece(table: Table, piece: ColumnPiece, columns: Sequence[str]) -> pa.Table:
    """Every row of a piece, deleted ones included, in the order they are stored."""
    return _scan_piece(table, piece, columns).select(list(columns))


def read_row_ids(table: Table, piece: ColumnPiece) -> npt.NDArray[np.int64]:
    """The row id of every row of a piece, in the order they are stored; -1 for deleted ones."""
    found = _scan_piece(table, piece, [ROW_ID]).column(ROW_ID).combine_chunks()
    ids: npt.NDArray[np.int64] = found.cast(pa.int64()).fill_null(DELETED).to_numpy()
    return ids


def _scan_piece(table: Table, piece: ColumnPiece, columns: Sequence[str]) -> pa.Table:
    with translate_errors(f"scanning a piece of {table!r}"):
        fragment = table.native.get_fragment(piece.fragment)
        assert fragment is not None, f"{piece} is not of {table!r}"
        # The row id is asked for because it is what marks the deleted rows: they have none.
        found = table.native.scanner(
            columns=list(columns),
            fragments=[fragment],
            offset=piece.start,
            limit=piece.rows,
            with_row_id=True,
            include_deleted_rows=True,
            scan_in_order=True,
        ).to_table()
    assert found.num_rows == piece.rows, f"{piece} has {found.num_rows} rows"
    return found


# --- words ----------------------------------------------------------------------------------------


def split_words(text: str) -> list[str]:
    """The words of a text in order, in lower case and with Latin letters folded to ASCII."""
    tokens = lance.tokenize(text, stem=False, remove_stop_words=False, max_token_length=None)
    return [token.text for token in tokens]


def stem_words(words: Sequence[str]) -> list[str]:
    """The English stem of each word. A word is what `split_words` gives."""
    tokens = lance.tokenize(
        " ".join(words), stem=True, remove_stop_words=False, max_token_length=None
    )
    assert len(tokens) == len(words), "a word that is not one word"
    return [token.text for token in tokens]


def drop_stop_words(words: Sequence[str]) -> set[str]:
    """The words that are worth looking for: all but the most common ones of English."""
    tokens = lance.tokenize(
        " ".join(words), stem=False, remove_stop_words=True, max_token_length=None
    )
    return {token.text for token in tokens}


# --- vectors --------------------------------------------------------------------------------------


def find_nearest(table: Table, column: str, query: npt.NDArray[np.float32], count: int) -> pa.Table:
    """The `count` nearest rows: row id, the vector and its squared distance, nearest first.

    Rows that no index covers take part; rows without a vector do not. The answer is exact, up to
    single precision, unless the index is of a lossy kind.
    """
    with translate_errors(f"searching the vectors of {table!r}"):
        return table.native.scanner(
            columns=[ROW_ID, column, DISTANCE],
            nearest={
                "column": column,
                "q": query,
                "k": count,
                "metric": "L2",
                "nprobes": _ALL_PARTITIONS,
                **({"refine_factor": _REFINE} if has_lossy_index(table, column) else {}),
            },
        ).to_table()


def has_lossy_index(table: Table, column: str) -> bool:
    """Whether the vectors of the column are indexed in a form that drops some of their detail."""
    kinds = {index.kind for index in describe_indices(table) if index.columns == (column,)}
    return bool(kinds - {_EXACT_INDEX})
