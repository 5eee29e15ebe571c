"""What expressions give for the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain

import pyarrow as pa
from lance import LanceFragment

from omnigraph.errors import BadExpression, OmniError
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.table import Table

COMPUTED = " "
"""Before the name of a column while its values are made; no column of a schema has it."""


def read_computed(
    table: Table,
    read: Mapping[str, str],
    fragments: Sequence[int] | None = None,
    *,
    blob_bytes: bool = False,
    batch_rows: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """What these expressions give for the rows, a batch at a time, in the order they are stored.

    Blob columns come as descriptors unless `blob_bytes` is set. With them comes the row id: the
    substrate reads no rows for constants alone.

    Raises:
        BadExpression: one whose name starts with `COMPUTED` has no value for a row.
    """
    only = None if fragments is None else [find_fragment(table, id) for id in fragments]
    with translate_errors(f"computing columns of {table!r}"):
        try:
            yield from table.native.scanner(
                columns=dict(read),
                with_row_id=True,
                fragments=only,
                scan_in_order=True,
                blob_handling="all_binary" if blob_bytes else None,
                batch_size=batch_rows,
            ).to_batches()
        except ValueError:  # bad values too: Arrow calls them invalid
            computed = {k: text for k, text in read.items() if k.startswith(COMPUTED)}
            for name, expression in computed.items():
                mistake = _find_failure(table, expression, only)
                if mistake is not None:
                    property_ = name.removeprefix(COMPUTED)
                    raise BadExpression(property_, expression, mistake) from None
            raise


def find_mistake(table: Table, expression: str) -> str | None:
    """Why an expression cannot be computed from the columns of a table; None if it can.

    It may still have no value for some row: what is no number, or a division by zero.
    """
    try:
        _ = table.native.scanner(columns={"value": expression}, with_row_id=True).projected_schema
    except ValueError as error:
        return _find_reason(error)
    return None


def _find_failure(
    table: Table, expression: str, fragments: list[LanceFragment] | None
) -> str | None:
    """What goes wrong with an expression by itself, as values do; None if nothing does."""
    try:
        for _ in table.native.scanner(
            columns={"value": expression}, with_row_id=True, fragments=fragments
        ).to_batches():
            continue
    except ValueError as error:
        return _find_reason(error)
    return None


def _find_reason(error: Exception) -> str:
    """What the substrate says, without where in its code it says so."""
    said = str(error).partition(", /")[0]
    for prefix in ("External error: ", "Invalid user input: ", "LanceError(Arrow): "):
        said = said.removeprefix(prefix)
    return said


def find_fragment(table: Table, id: int) -> LanceFragment:
    fragment = table.native.get_fragment(id)
    assert fragment is not None, f"no fragment {id} in {table!r}"
    return fragment


@contextmanager
def open_noting_failures(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema | None = None
) -> Iterator[pa.RecordBatchReader]:
    """The batches for the substrate to read within the block.

    Without a schema, the first batch has it, and there must be one.

    Raises:
        OmniError: what making one of them raised. The substrate only tells that there are no more.
    """
    failures: list[OmniError] = []

    def note() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except OmniError as error:
            failures.append(error)
            raise

    noted = note()
    if schema is None:
        first = next(noted, None)
        assert first is not None, "a fragment has rows"
        schema, noted = first.schema, chain([first], noted)
    try:
        yield pa.RecordBatchReader.from_batches(schema, noted)
    except Exception:
        if failures:
            raise failures[0] from None
        raise
