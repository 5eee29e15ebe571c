"""Rows and snapshots as graphs of other libraries, which are loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.types.to_json import encode_rows

Entities = Mapping[str, tuple[NodeType | EdgeType, pa.Table]]
"""Types by their table keys, with all rows."""


def choose_ends(columns: Sequence[str], source: str | None, target: str | None) -> tuple[str, str]:
    """The two columns whose values are the ends of edges: the first two, unless named."""
    if len(columns) < 2 and (source is None or target is None):
        raise BadRequest("two columns are needed: where edges start and where they end")
    chosen = (source or columns[0], target or columns[1])
    for name in chosen:
        if name not in columns:
            raise BadRequest(f"no such column '{name}'; the columns are: {', '.join(columns)}")
    return chosen


def make_networkx_pairs(rows: pa.Table, source: str | None, target: str | None) -> Any:  # noqa: ANN401
    """A directed graph with an edge for each row; the other columns are its attributes."""
    networkx = _load("networkx", "to_networkx()")
    first, second = choose_ends(rows.column_names, source, target)
    graph = networkx.MultiDiGraph()
    others = [name for name in rows.column_names if name not in (first, second)]
    for row in encode_rows(rows):
        for end in (row[first], row[second]):
            if end is not None:
                graph.add_node(end)
        if row[first] is not None and row[second] is not None:
            graph.add_edge(row[first], row[second], **{name: row[name] for name in others})
    return graph


def make_networkx(entities: Entities) -> Any:  # noqa: ANN401 - NetworkX is optional
    """A directed graph of whole types: a node is `(type, id)`, and has its properties."""
    networkx = _load("networkx", "to_networkx()")
    graph = networkx.MultiDiGraph()
    for type_, rows in _of_kind(entities, NodeType):
        for row in encode_rows(rows):
            graph.add_node((type_.name, row["id"]), type=type_.name, **row)
    for type_, rows in _of_kind(entities, EdgeType):
        for row in encode_rows(rows):
            ends = (type_.from_type, row.pop("src")), (type_.to_type, row.pop("dst"))
            graph.add_edge(*ends, key=row["id"], type=type_.name, **row)
    return graph


def make_pyg(entities: Entities) -> Any:  # noqa: ANN401 - PyTorch Geometric is optional
    """A `HeteroData`: numbers, truth values and vectors as tensors, and the ids as lists."""
    torch = _load("torch", "to_pyg()")
    data = _load("torch_geometric.data", "to_pyg()").HeteroData()
    ids: dict[str, pa.Array] = {}
    for type_, rows in _of_kind(entities, NodeType):
        ids[type_.name] = rows.column("id").combine_chunks()
        store = data[type_.name]
        store.num_nodes = rows.num_rows
        store.id = rows.column("id").to_pylist()
        for name, values in list_numeric_columns(rows).items():
            store[name] = torch.from_numpy(values)
    for type_, rows in _of_kind(entities, EdgeType):
        store = data[type_.from_type, type_.name, type_.to_type]
        index = number_ends(rows, ids[type_.from_type], ids[type_.to_type])
        store.edge_index = torch.from_numpy(index)
        for name, values in list_numeric_columns(rows).items():
            store[name] = torch.from_numpy(values)
    return data


def list_numeric_columns(rows: pa.Table) -> dict[str, np.ndarray[Any, Any]]:
    """The columns that tensors can hold: numbers, truth values and vectors without nulls."""
    found = {}
    for name in rows.column_names:
        column = rows.column(name).combine_chunks()
        if column.null_count:
            continue
        if pat.is_fixed_size_list(column.type):
            values = column.flatten().to_numpy(zero_copy_only=False)
            found[name] = values.reshape(len(column), column.type.list_size).copy()
        elif pat.is_integer(column.type) or pat.is_floating(column.type):
            found[name] = column.to_numpy(zero_copy_only=False).copy()
        elif pat.is_boolean(column.type):
            found[name] = column.to_numpy(zero_copy_only=False)
    return found


def number_ends(rows: pa.Table, sources: pa.Array, targets: pa.Array) -> np.ndarray[Any, Any]:
    """The ends of edges as places among the ids of their types, two rows of numbers."""
    ends = [
        pc.index_in(rows.column(column).combine_chunks(), value_set=ids)
        for column, ids in (("src", sources), ("dst", targets))
    ]
    return np.stack([end.to_numpy(zero_copy_only=False).astype(np.int64) for end in ends])


def _of_kind(entities: Entities, kind: type) -> list[tuple[Any, pa.Table]]:
    return [(type_, rows) for type_, rows in entities.values() if isinstance(type_, kind)]


def _load(module: str, what: str) -> Any:  # noqa: ANN401 - a module
    package = module.partition(".")[0]
    if find_spec(package) is None:
        install = f"pip install {package.replace('_', '-')}"
        raise MissingPackage(package, what, install)
    return import_module(module)
