"""Vectors that are made from other properties, for rows on their way to a staging table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType, Property
from omnigraph.constraints.table_changes import get_column
from omnigraph.errors import RowProblem
from omnigraph.execution.fill_vectors import (
    explain_lack,
    find_obstacle,
    keep_stored_vectors,
    list_made_vectors,
    mask_null,
    mask_texts,
    put_vectors,
    replace_cells,
)
from omnigraph.execution.read import Flags
from omnigraph.pipeline.kernels.complete_rows import Whole
from omnigraph.pipeline.kernels.text_vectors import Asking, embed_texts
from omnigraph.pipeline.staging_area import AT, PRESENT, encode_position
from omnigraph.storage.tables import Table
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.problems import ProblemCode

_NOT_ASKED = "no provider is asked here"


def make_vectors(
    type_: NodeType | EdgeType,
    whole: Whole,
    asking: Asking | None,
    split: int,
    *,
    partial: bool,
    stored: Table | None = None,
) -> None:
    """Put the missing vectors into rows, and take out rows that must have one and cannot.

    A partial record gets one if it gives a text and no vector. A row whose text is the `stored`
    one keeps the stored vector: whatever that row becomes meanwhile, it is the vector of the text.
    """
    for property_ in list_made_vectors(type_):
        assert property_.embed is not None, "only such vectors are made"
        stale = _find_stale(whole.rows, property_, partial=partial)
        obstacle = _NOT_ASKED if asking is None else find_obstacle(asking.settings, property_)
        if asking is not None and obstacle is None and stale.any():
            if stored is not None:
                whole.rows = keep_stored_vectors(whole.rows, property_, stale, stored)
            _fill(type_, whole, property_, stale, asking, partial=partial)
        if not property_.type.nullable:
            _refuse_lacking(type_, whole, property_, obstacle, split, partial=partial)


def _find_stale(rows: pa.Table, property_: Property, *, partial: bool) -> Flags:
    if not partial:
        return mask_null(get_column(rows, property_.name))
    assert property_.embed is not None, "only such vectors are made"
    gives_text = _read_flags(rows, property_.embed.source)
    return gives_text & ~_read_flags(rows, property_.name)


def _read_flags(rows: pa.Table, name: str) -> Flags:
    found: Flags = get_column(rows, PRESENT + name).to_numpy(zero_copy_only=False)
    return found


def _fill(
    type_: NodeType | EdgeType,
    whole: Whole,
    property_: Property,
    stale: Flags,
    asking: Asking,
    *,
    partial: bool,
) -> None:
    assert property_.embed is not None, "only such vectors are made"

    def ask(texts: Sequence[str], dimension: int) -> Mapping[str, list[float]]:
        return embed_texts(replace(asking, dimension=dimension), texts)

    says = mask_texts(get_column(whole.rows, property_.embed.source))
    lacking = stale & mask_null(get_column(whole.rows, property_.name))
    rows = put_vectors(type_, whole.rows, property_, lacking & says, ask)
    if partial:  # a text that was taken away takes its vector with it
        silent = np.flatnonzero(stale & ~says)
        none = pa.nulls(len(silent), to_arrow_type(property_.type))
        rows = replace_cells(rows, property_.name, silent, none)
        given = pa.array(_read_flags(rows, property_.name) | stale)
        place = rows.schema.get_field_index(PRESENT + property_.name)
        rows = rows.set_column(place, rows.schema.field(place), given)
    whole.rows = rows


def _refuse_lacking(
    type_: NodeType | EdgeType,
    whole: Whole,
    property_: Property,
    obstacle: str | None,
    split: int,
    *,
    partial: bool,
) -> None:
    lacking = mask_null(get_column(whole.rows, property_.name))
    if partial:
        lacking = lacking & _read_flags(whole.rows, property_.name)
    reason = explain_lack(property_, obstacle)
    for row in np.flatnonzero(lacking).tolist():
        line = whole.rows.column(AT)[row].as_py() - encode_position(split, 0)
        id = whole.rows.column("id")[row].as_py()
        whole.problems.append(
            RowProblem(
                reason, ProblemCode.REQUIRED, None, line, type_.table_key, id, property_.name
            )
        )
    if lacking.any():
        whole.rows = whole.rows.filter(pa.array(~lacking))
