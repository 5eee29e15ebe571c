"""Changes of tables that constraints check, and access to the committed rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import Violation, ViolationKind
from omnigraph.errors.omni_error import render_both_positions
from omnigraph.identity import TableKey

NO_IDS = pa.array([], pa.string())
REPORTED = 100
"""Most violations that an error lists; the others are counted."""


@dataclass(frozen=True)
class TableChange:
    """Effect of a write on one table.

    `rows` holds the final image of every row that is inserted or replaced, each id once; only
    records that give one key twice may stand side by side, and then break the key. `deleted` are
    ids that go, none of them among the rows. With `replaces_all` nothing else of the table stays,
    and `deleted` must name every committed id that is not among the rows. `lines` says where each
    row came from, when it came from a file; `positions`, where it is in an input of many files.
    """

    type: NodeType | EdgeType
    rows: pa.Table
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    replaces_all: bool = False
    lines: pa.Array | None = None
    positions: pa.Array | None = None
    file: str | None = None

    @property
    def table_key(self) -> TableKey:
        return self.type.table_key

    @cached_property
    def ids(self) -> pa.Array:
        return get_column(self.rows, "id")

    @cached_property
    def gone(self) -> pa.Array:
        """The ids of committed rows that are replaced or deleted."""
        return pa.concat_arrays([self.ids, self.deleted])

    def without(self, dropped: npt.NDArray[np.int64]) -> TableChange:
        """Return the change without the rows at some indexes."""
        if not len(dropped):
            return self
        kept = np.ones(self.rows.num_rows, np.bool_)
        kept[dropped] = False
        mask = pa.array(kept)
        return replace(
            self,
            rows=self.rows.filter(mask),
            lines=None if self.lines is None else self.lines.filter(mask),
            positions=None if self.positions is None else self.positions.filter(mask),
        )

    def violation(
        self, kind: ViolationKind, message: str, index: int, other: int | None = None
    ) -> Violation:
        """Make a violation of the row at `index`, with its id and where it came from.

        `other` is the earlier row of this change that it contradicts, if any.
        """
        line = self.lines[index].as_py() if self.lines is not None else None
        if other is not None and self.lines is not None and line is not None:
            first = self.lines[other].as_py()
            message += f", in {render_both_positions(self.file, first, self.file, line)}"
        return Violation.of(
            kind,
            self.table_key,
            message,
            id=self.ids[index].as_py(),
            file=self.file,
            line=line,
            position=self._find_position(index),
            other_position=None if other is None else self._find_position(other),
        )

    def _find_position(self, index: int) -> int | None:
        return None if self.positions is None else self.positions[index].as_py()


Changes = Mapping[TableKey, TableChange]


class Committed(Protocol):
    """The rows a write starts from."""

    def find(self, table: TableKey, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        """Return the rows whose column `by` has one of the values, in any order.

        `columns` are what is read. The values may repeat and hold no NULL.
        """
        ...


def get_column(rows: pa.Table, name: str) -> pa.Array:
    """Return a column in one piece."""
    found = rows.column(name)
    if found.num_chunks == 1:
        return found.chunk(0)
    return found.combine_chunks() if found.num_chunks else pa.array([], found.type)


def mask_remaining(ids: pa.Array, gone: pa.Array) -> pa.Array:
    """Mask the ids that are not among those gone."""
    if not len(ids) or not len(gone):
        return pa.repeat(pa.scalar(True), len(ids))
    return pc.invert(pc.is_in(ids, value_set=gone))
