"""Import files of other programs, and graphs of NetworkX, as one commit of a graph."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pat

from omnigraph.errors import BadRequest, GraphNotFound, RowProblem, RowsRejected
from omnigraph.graph.engines import LoadEngineName, ModeName
from omnigraph.graph.graph import Graph, init
from omnigraph.graph.graph import open as open_graph
from omnigraph.interchange.find_tables import Sources, open_sources
from omnigraph.interchange.propose_schema import find_types_of_ids, propose_schema
from omnigraph.interchange.read_records import read_networkx
from omnigraph.interchange.schema_proposal import (
    ProposedEdge,
    ProposedNode,
    ProposedProperty,
    SchemaProposal,
    fit_proposal,
)
from omnigraph.interchange.source_tables import SourceGraph, SourceTable
from omnigraph.interchange.type_inference import as_id_texts, is_text_type
from omnigraph.language.source import SourceText
from omnigraph.output_files import OutputFile
from omnigraph.pipeline.kernels.tabular import parse_texts
from omnigraph.plan.compile import compile_catalog
from omnigraph.settings import Settings
from omnigraph.types.column_values import convert_array
from omnigraph.types.row_problems import ProblemCode
from omnigraph.wire.write_results import LoadResult


@dataclass(frozen=True, slots=True)
class ImportResult:
    """Result of an import: the load, the proposed schema, and the data that was not imported."""

    graph: Graph
    created: bool
    """True if the graph was created by the import, with the proposed schema."""
    proposal: SchemaProposal
    load: LoadResult

    @property
    def lost(self) -> tuple[str, ...]:
        """Data that was not imported, one line for each part."""
        return self.proposal.lost

    def wire(self) -> dict[str, object]:
        return {
            "uri": self.graph.uri,
            "created": self.created,
            "guesses": list(self.proposal.guesses) if self.created else [],
            "lost": list(self.lost),
            **self.load.wire(),
        }


def infer_schema(
    sources: Sources, *, delimiter: str | None = None, settings: Settings | None = None
) -> SchemaProposal:
    """Propose a schema from data: files, folders, or data frames by the names of their types.

    CSV, TSV, Parquet, Arrow, JSON lines and GraphML are read, exports of Kuzu, and of Neo4j as CSV
    or JSON. Keys, edges, types and what may be null are found in the data; comments say where that
    is a guess.

    Args:
        sources: One or more files, folders and patterns, also of buckets (`s3://`), or a dictionary
            of tables, data frames and lists of dictionaries.
        delimiter: Between the columns of text files; a comma, and in `.tsv` files a tab.
        settings: How to reach buckets; from the process environment by default.

    >>> people = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Ben"}]
    >>> knows = [{"from": 1, "to": 2, "since": 1998}]
    >>> proposal = omnigraph.infer_schema({"Person": people, "Knows": knows})
    >>> [(edge.name, edge.source, edge.target) for edge in proposal.edges]
    [('Knows', 'Person', 'Person')]
    >>> omnigraph.init("inferred.omni", proposal.source).branches()
    ['main']
    """
    with open_sources(sources, delimiter, settings) as found:
        return propose_schema(found)


def import_files(
    graph: Graph | str | Path,
    sources: Sources,
    *,
    mode: ModeName = "append",
    branch: str = "main",
    delimiter: str | None = None,
    on_error: str = "fail",
    rejects: str | Path | OutputFile | None = None,
    actor: str | None = None,
    settings: Settings | None = None,
    engine: LoadEngineName | None = None,
) -> ImportResult:
    """Load data of other programs into a graph, as one commit.

    A graph that does not exist is created with the schema that `infer_schema` proposes; one that
    exists must have the types and properties, by their names.

    Args:
        graph: A graph, or the address of one.
        sources: As for `infer_schema`.
        mode: `append`, `merge` or `overwrite`, as for `load`.
        branch: The branch to load into.
        delimiter: Between the columns of text files.
        on_error: `fail` rejects the import on bad rows, `skip` skips them.
        rejects: A file for the rejected records.
        actor: Who the commit is recorded for.
        settings: The settings of a graph that is given by its address, and how to reach buckets.
        engine: Where the load runs.

    >>> people = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Ben"}]
    >>> done = omnigraph.import_files("imported.omni", {"Person": people})
    >>> done.created, done.load.nodes, done.lost
    (True, {'Person': 2}, ())
    """
    with open_sources(sources, delimiter, _find_settings(graph, settings)) as found:
        return _import_tables(
            graph, found, mode, branch, on_error, actor, settings, engine, rejects
        )


def import_networkx(
    graph: Graph | str | Path,
    source: object,
    *,
    node_type: str | None = None,
    edge_type: str | None = None,
    mode: ModeName = "append",
    branch: str = "main",
    on_error: str = "fail",
    actor: str | None = None,
    settings: Settings | None = None,
    engine: LoadEngineName | None = None,
) -> ImportResult:
    """Load a graph of NetworkX into a graph, as one commit; see `import_files`.

    Args:
        graph: A graph, or the address of one, which is created if it does not exist.
        source: A graph of any kind of NetworkX.
        node_type: The attribute that holds the type of a node; without it all are of type `Node`.
        edge_type: The attribute that holds the type of an edge; without it all are of type `Edge`.
        mode: `append`, `merge` or `overwrite`, as for `load`.
        branch: The branch to load into.
        on_error: `fail` rejects the import on bad rows, `skip` skips them.
        actor: Who the commit is recorded for.
        settings: The settings of a graph that is given by its address.
        engine: Where the load runs.

    >>> import networkx
    >>> karate = networkx.karate_club_graph()
    >>> done = omnigraph.import_networkx("karate.omni", karate)
    >>> done.load.nodes, done.load.edges
    ({'Node': 34}, {'Edge': 78})
    """
    found = read_networkx(source, node_type, edge_type)
    return _import_tables(graph, found, mode, branch, on_error, actor, settings, engine)


def _import_tables(
    graph: Graph | str | Path,
    found: SourceGraph,
    mode: ModeName,
    branch: str,
    on_error: str,
    actor: str | None,
    settings: Settings | None,
    engine: LoadEngineName | None,
    rejects: str | Path | OutputFile | None = None,
) -> ImportResult:
    proposal = propose_schema(found)
    target = _find_graph(graph, settings, actor)
    with tempfile.TemporaryDirectory(prefix="omnigraph-import-") as folder:
        if target is not None:
            catalog = compile_catalog(SourceText(target.schema, "<schema>"))
            proposal = fit_proposal(proposal, catalog)
        stage_import(proposal, Path(folder))
        into = target
        if into is None:
            assert isinstance(graph, str | Path), "only an address may have no graph"
            into = init(graph, proposal.source, actor=actor, settings=settings)
        load = into.load(
            folder,
            mode,
            branch=branch,
            on_error=on_error,
            rejects=rejects,
            actor=actor,
            engine=engine,
        )
    return ImportResult(into, target is None, proposal, load)


def _find_settings(graph: object, given: Settings | None) -> Settings | None:
    return graph.settings if given is None and isinstance(graph, Graph) else given


def _find_graph(
    graph: Graph | str | Path, settings: Settings | None, actor: str | None
) -> Graph | None:
    if isinstance(graph, Graph):
        return graph
    if not isinstance(graph, str | Path):
        raise BadRequest(f"give a graph or its address, not {type(graph).__name__}")
    try:
        return open_graph(graph, settings=settings, actor=actor)
    except GraphNotFound:
        return None


# --- rows as files that a load reads --------------------------------------------------------------


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
            path = folder / "nodes" / node.name / _name_file(table, number)
            _write(path, _list_nodes(node, table))
    for edge in proposal.edges:
        for number, table in enumerate(edge.tables):
            path = folder / "edges" / edge.name / _name_file(table, number)
            _write(path, _list_edges(edge, table, ids))


def _name_file(table: SourceTable, number: int) -> str:
    """Return a name that says where the rows came from, for messages of the load."""
    name = PurePath(table.origin).name
    return f"{name}.{number}.parquet" if number else f"{name}.parquet"


def _write(path: Path, batches: Iterator[pa.RecordBatch]) -> None:
    first = next(batches, None)
    if first is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, first.schema) as writer:
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
        types = [
            find_types_of_ids(end, names, ids)
            for end, names in zip(ends, edge.candidates, strict=True)
        ]
        chosen = pa.array((types[0] == wanted[0]) & (types[1] == wanted[1]))
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
    """Convert a column to the type of its property, so that all parts of a type agree."""
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
