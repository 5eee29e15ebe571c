"""A generated graph as Arrow tables, and the column builders that the generators share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.generators.draw import Integers
from bench.hashing import hash_arrow


@dataclass(frozen=True, slots=True)
class GraphTables:
    """Node tables hold properties; edge tables hold `src`, `dst` and properties.

    `src` and `dst` are the ids of the nodes they join, which is to say the text of their keys.
    `keys` gives the key column of each node type, `endpoints` the node types an edge joins.
    """

    schema_text: str
    nodes: Mapping[str, pa.Table]
    edges: Mapping[str, pa.Table]
    keys: Mapping[str, str]
    endpoints: Mapping[str, tuple[str, str]]

    @property
    def tables(self) -> dict[str, pa.Table]:
        """Every table by type name, nodes before edges."""
        return {**self.nodes, **self.edges}

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables.values())


def fingerprint(graph: GraphTables) -> str:
    """A hash of every type, column, row and row order; slow, for small graphs."""
    digest = hashlib.sha256(graph.schema_text.encode())
    for name, table in graph.tables.items():
        columns = ", ".join(f"{field.name}: {field.type}" for field in table.schema)
        digest.update(f"{name}({columns}) {hash_arrow(table, ordered=True)}\n".encode())
    return digest.hexdigest()


def with_integer_endpoints(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Edge tables with `src` and `dst` as integers, for peers whose keys are numbers."""
    return {name: _integer_endpoints(table) for name, table in tables.items()}


def _integer_endpoints(table: pa.Table) -> pa.Table:
    for name in ("src", "dst"):
        index = table.schema.get_field_index(name)
        table = table.set_column(index, name, pc.cast(table[name], pa.int64()))
    return table


def columns(optional: tuple[str, ...] = (), /, **arrays: pa.Array) -> pa.Table:
    """A table of these columns, none of which may hold null but the `optional` ones."""
    fields = [
        pa.field(name, array.type, nullable=name in optional) for name, array in arrays.items()
    ]
    return pa.table(list(arrays.values()), schema=pa.schema(fields))


def numbers_from_one(count: int) -> pa.Array:
    """The key column: 1, 2, 3 and so on."""
    return pa.array(np.arange(1, count + 1, dtype=np.int64))


def number_ids(indexes: Integers) -> pa.Array:
    """The ids of nodes keyed by `numbers_from_one`, given their indices in the table."""
    return pc.cast(pa.array(indexes + 1), pa.string())


def coded_ids(prefix: str, indexes: Integers) -> pa.Array:
    """Ids such as `d0000042`: a prefix and the index in the table, of even width."""
    digits = pc.utf8_lpad(pc.cast(pa.array(indexes), pa.string()), 7, "0")
    return pc.binary_join_element_wise(pa.scalar(prefix), digits, "")


def dates(days: Integers) -> pa.Array:
    """Days since 1970-01-01 as a date column."""
    return pa.array(days.astype(np.int32)).cast(pa.date32())


def picked(words: list[str], indexes: Integers) -> pa.Array:
    """The words at these indices, as a text column."""
    return pa.array(words, pa.string()).take(pa.array(indexes))
