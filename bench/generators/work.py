"""A graph of any number of rows for loads: ten edges to a node, two types of each, mixed lines.

Its values need no escaping in JSON, so lines are made by columns: ten million of them in seconds,
where a general writer takes minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.generators.draw import Draw, Integers
from bench.generators.names import made_up_names
from bench.generators.tables import GraphTables, columns, dates, picked

SCHEMA = Path(__file__).with_suffix(".pg").read_text()

_CITIES = 1_000
_FIRST_DAY, _DAYS = 14_000, 6_000
_ROWS_AT_ONCE = 1 << 17
_NODES = ("Person", "Company")


def work_graph(seed: int, rows: int) -> GraphTables:
    """`rows` nodes and edges in all; equal seeds and sizes give equal bytes."""
    if rows < 110:
        raise ValueError(f"this graph needs at least 110 rows, not {rows}")
    nodes = rows // 11
    companies = nodes // 10
    persons = nodes - companies
    jobs = (rows - nodes) // 10
    return GraphTables(
        schema_text=SCHEMA,
        nodes={"Person": _persons(seed, persons), "Company": _companies(seed, companies)},
        edges={
            "Knows": _edges(seed, "Knows", rows - nodes - jobs, persons, ("p", persons)),
            "WorksAt": _edges(seed, "WorksAt", jobs, persons, ("c", companies)),
        },
        keys={"Person": "name", "Company": "name"},
        endpoints={"Knows": ("Person", "Person"), "WorksAt": ("Person", "Company")},
    )


def write_work_lines(graph: GraphTables, path: Path, seed: int = 0) -> None:
    """Every record on a line, nodes and edges of all types mixed all over the file."""
    pieces = max(1, graph.rows // _ROWS_AT_ONCE)
    shuffle = Draw(seed, "order of lines")
    with path.open("wb") as output:
        for piece in range(pieces):
            lines = pa.concat_arrays(
                [
                    _lines(name, _share(table, piece, pieces), is_node=name in _NODES)
                    for name, table in graph.tables.items()
                ]
            )
            mixed = lines.take(pa.array(shuffle.permutation(len(lines))))
            output.write(mixed.buffers()[2])


def _share(table: pa.Table, piece: int, pieces: int) -> pa.Table:
    start, end = (table.num_rows * number // pieces for number in (piece, piece + 1))
    return table.slice(start, end - start)


def _lines(name: str, table: pa.Table, *, is_node: bool) -> pa.Array:
    texts = [*_head(name, table, is_node=is_node)]
    properties = [field for field in table.schema if field.name not in ("src", "dst")]
    for index, field in enumerate(properties):
        quote = '"' if field.type in (pa.string(), pa.date32()) else ""
        texts += [f'{"," if index else ""}"{field.name}":{quote}', _text(table[field.name]), quote]
    return pc.binary_join_element_wise(*texts, "}}\n", "")


def _head(name: str, table: pa.Table, *, is_node: bool) -> Iterator[str | pa.Array]:
    if is_node:
        yield f'{{"type":"{name}","data":{{'
        return
    yield f'{{"edge":"{name}","from":"'
    yield _text(table["src"])
    yield '","to":"'
    yield _text(table["dst"])
    yield '","data":{'


def _text(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks().cast(pa.string())


def _names(prefix: str, numbers: Integers) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def _days(seed: int, what: str, count: int) -> pa.Array:
    return dates(_FIRST_DAY + Draw(seed, what).integers(count, _DAYS))


def _persons(seed: int, count: int) -> pa.Table:
    cities = Draw(seed, "work city").square(count, _CITIES)
    return columns(
        name=_names("p", np.arange(count)),
        age=pa.array((18 + Draw(seed, "work age").integers(count, 60)).astype(np.int32)),
        city=picked(made_up_names(_CITIES), cities),
        # Halves and quarters: every reader and writer agrees on their last digit.
        score=pa.array(Draw(seed, "work score").integers(count, 4_000) / 4),
        joined=_days(seed, "work joined", count),
        is_active=pa.array(Draw(seed, "work active").integers(count, 2).astype(np.bool_)),
    )


def _companies(seed: int, count: int) -> pa.Table:
    return columns(
        name=_names("c", np.arange(count)),
        founded=_days(seed, "work founded", count),
        size=pa.array(1 + Draw(seed, "work size").square(count, 10_000)),
    )


def _edges(seed: int, name: str, count: int, sources: int, targets: tuple[str, int]) -> pa.Table:
    prefix, most = targets
    weights = Draw(seed, f"{name} weight").integers(count, 800) / 8
    return columns(
        src=_names("p", Draw(seed, f"{name} source").integers(count, sources)),
        dst=_names(prefix, Draw(seed, f"{name} target").square(count, most)),
        weight=pa.array(weights.astype(np.float32)),
        since=_days(seed, f"{name} since", count),
    )
