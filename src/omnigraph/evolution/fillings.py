"""The values of new columns, computed from those a row has: plain specs, and the kernel for them.

A spec can be sent to another process; the kernel works on whole batches and reads nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadExpression
from omnigraph.storage.tables import Table, find_mistake, quote_identifier, quote_literal

_SAFE = 1 << 53
_CASTS = {
    pa.string(): "Utf8",
    pa.bool_(): "Boolean",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
}
_COMPUTED = " "
"""Before the name of what an expression gives; no stored column has it."""


@dataclass(frozen=True, slots=True)
class ConstantFilling:
    """The same value in every row."""

    field: pa.Field
    value: object

    @property
    def read(self) -> Mapping[str, str]:
        """What must be read of a row, as expressions by the names their values get."""
        return {}

    def fill(self, rows: pa.RecordBatch) -> pa.Array:
        return pa.repeat(pa.scalar(self.value, self.field.type), rows.num_rows)

    @property
    def expression(self) -> str | None:
        """The value as an expression, where there is no doubt how one reads it."""
        kind, value = self.field.type, self.value
        if isinstance(value, bool | str) or (isinstance(value, int) and abs(value) < _SAFE):
            return (
                f"arrow_cast({quote_literal(value)}, '{_CASTS[kind]}')" if kind in _CASTS else None
            )
        return None


@dataclass(frozen=True, slots=True)
class ConvertedFilling:
    """The values of a column as values of another type, of which none is lost."""

    field: pa.Field
    source: str

    @property
    def read(self) -> Mapping[str, str]:
        return {self.source: quote_identifier(self.source)}

    def fill(self, rows: pa.RecordBatch) -> pa.Array:
        values, wanted = rows.column(self.source), self.field.type
        if pa.types.is_list(wanted) and not pa.types.is_list(values.type):
            return _convert_to_lists(values, wanted)
        return values.cast(wanted)


@dataclass(frozen=True, slots=True)
class ComputedFilling:
    """What an expression gives for a row, which must be a value of the type."""

    field: pa.Field
    expression: str

    @property
    def read(self) -> Mapping[str, str]:
        return {f"{_COMPUTED}{self.field.name}": self.expression}

    def fill(self, rows: pa.RecordBatch) -> pa.Array:
        values = rows.column(f"{_COMPUTED}{self.field.name}")
        try:
            return values.cast(self.field.type)
        except pa.ArrowException as error:
            raise BadExpression(
                self.field.name,
                self.expression,
                f"it gives what is not a value of the property: {error}",
            ) from error


Filling = ConstantFilling | ConvertedFilling | ComputedFilling


def collect_expressions(fillings: Sequence[Filling]) -> dict[str, str]:
    """What computing these needs of a row; nothing for constants."""
    return {name: text for filling in fillings for name, text in filling.read.items()}


def render_constants(fillings: Sequence[Filling]) -> dict[str, str] | None:
    """The values of columns that are all constants, as expressions; None where some are not.

    What the substrate fills in by itself need not be made here and handed over.
    """
    texts = {
        filling.field.name: filling.expression if isinstance(filling, ConstantFilling) else None
        for filling in fillings
    }
    known = {name: text for name, text in texts.items() if text is not None}
    return known if len(known) == len(texts) else None


def require_computable(table: Table, fillings: Sequence[Filling]) -> None:
    """Raise if an expression speaks of what a table does not have, or cannot be understood."""
    for filling in fillings:
        if isinstance(filling, ComputedFilling):
            mistake = find_mistake(table, filling.expression)
            if mistake is not None:
                raise BadExpression(filling.field.name, filling.expression, mistake)


def make_filler(fillings: Sequence[Filling]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """The function that makes the new columns of a batch; another process can run it."""
    return partial(fill_columns, tuple(fillings))


def fill_columns(fillings: Sequence[Filling], rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [filling.fill(rows) for filling in fillings]
    # A deleted row has no values, whatever the column allows.
    schema = pa.schema([filling.field.with_nullable(True) for filling in fillings])
    return pa.record_batch(columns, schema=schema)


def _convert_to_lists(values: pa.Array, wanted: pa.ListType) -> pa.Array:
    """Each value as the only member of a list; NULL stays NULL."""
    items = values.drop_null().cast(wanted.value_type)
    lengths = pc.is_valid(values).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, items, wanted, mask=pc.is_null(values))
