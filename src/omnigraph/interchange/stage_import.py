"""The rows of a proposal as files that a load reads: a folder for each type, as an export has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from omnigraph.errors import RowProblem, RowsRejected
from omnigraph.interchange.column_facts import as_id_texts, is_text_type
from omnigraph.interchange.propose_schema import place_ids
from omnigraph.interchange.schema_proposal import (
    ProposedEdge,
    ProposedNode,
    ProposedProperty,
    SchemaProposal,
)
from omnigraph.interchange.source_tables import SourceTable
from omnigraph.pipeline.kernels.tabular import parse_texts
from omnigraph.types.from_arrow import convert_array
from omnigraph.types.problems import ProblemCode

_SHOWN = 100
_HEADER_LINES = 1


def stage_import(proposal: SchemaProposal, folder: Path) -> None:
    """Write all rows below a folder.

    Raises:
        RowsRejected: a value is not of the type its column has.
    """
    ids = {one.name: one.ids for one in proposal.nodes}
    for node in proposal.nodes:
        for number, table in enumerate(node.tables):
            place = folder / "nodes" / node.name / _name_file(table, number)
            _write(place, _list_nodes(node, table))
    for edge in proposal.edges:
        for number, table in enumerate(edge.tables):
            place = folder / "edges" / edge.name / _name_file(table, number)
            _write(place, _list_edges(edge, table, ids))


def _name_file(table: SourceTable, number: int) -> str:
    """A name that says where the rows came from, for messages of the load."""
    name = PurePath(table.origin).name
    return f"{name}.{number}.parquet" if number else f"{name}.parquet"


def _write(place: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches, None)
    if first is None:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(place, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def _list_nodes(node: ProposedNode, table: SourceTable) -> Iterator[pa.RecordBatch]:
    line = 1 + _HEADER_LINES
    for batch in table.read():
        columns: dict[str, pa.Array] = {}
        if node.id_column is not None:
            columns["id"] = as_id_texts(_get(batch, node.id_column))
        for one in node.properties:
            columns[one.name] = _convert(batch, one, table, f"node:{node.name}", line)
        line += batch.num_rows
        if batch.num_rows:
            yield pa.record_batch(columns)


def _list_edges(
    edge: ProposedEdge, table: SourceTable, ids: Mapping[str, pa.Array]
) -> Iterator[pa.RecordBatch]:
    wanted = tuple(
        names.index(name)
        for names, name in zip(edge.candidates, (edge.source, edge.target), strict=True)
    )
    line = 1 + _HEADER_LINES
    for batch in table.read():
        ends = [_get(batch, column) for column in edge.ends]
        places = [
            place_ids(end, names, ids) for end, names in zip(ends, edge.candidates, strict=True)
        ]
        chosen = pa.array((places[0] == wanted[0]) & (places[1] == wanted[1]))
        columns = {"from": as_id_texts(ends[0]), "to": as_id_texts(ends[1])}
        if edge.id_column is not None:
            columns["id"] = as_id_texts(_get(batch, edge.id_column))
        for one in edge.properties:
            columns[one.name] = _convert(batch, one, table, f"edge:{edge.name}", line)
        line += batch.num_rows
        rows = pa.record_batch(columns).filter(chosen)
        if rows.num_rows:
            yield rows


def _get(batch: pa.RecordBatch, name: str) -> pa.Array:
    at = batch.schema.get_field_index(name)
    return batch.column(at) if at >= 0 else pa.nulls(batch.num_rows, pa.string())


def _convert(
    batch: pa.RecordBatch, wanted: ProposedProperty, table: SourceTable, type_key: str, line: int
) -> pa.Array:
    """A column as the type of its property, so that all parts of a type agree."""
    column = _get(batch, wanted.column)
    if pat.is_dictionary(column.type):
        column = column.dictionary_decode()
    if wanted.type.is_blob:
        return column if is_text_type(column.type) else column.cast(pa.large_binary())
    if is_text_type(column.type):
        converted = parse_texts(column.cast(pa.string()), wanted.type)
    else:
        converted = convert_array(column, wanted.type)
    if converted.errors:
        problems = [
            RowProblem(
                f"property '{wanted.name}': {reason}",
                ProblemCode.BAD_VALUE,
                table.origin,
                line + row,
                type_key,
                property=wanted.name,
            )
            for row, reason in converted.errors[:_SHOWN]
        ]
        raise RowsRejected(problems, len(converted.errors))
    return converted.array
