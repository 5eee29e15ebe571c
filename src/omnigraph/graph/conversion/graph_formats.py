"""Rows and snapshots as graphs of other libraries, and as a drawing in SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.types.to_json import encode_rows

Entities = Mapping[str, tuple[NodeType | EdgeType, pa.Table]]
"""Types by their table keys, with all rows."""


def choose_ends(columns: Sequence[str], source: str | None, target: str | None) -> tuple[str, str]:
    """Return the two columns with the endpoints of edges: the first two, unless named."""
    if len(columns) < 2 and (source is None or target is None):
        raise BadRequest("two columns are needed: where edges start and where they end")
    chosen = (source or columns[0], target or columns[1])
    for name in chosen:
        if name not in columns:
            raise BadRequest(f"no such column '{name}'; the columns are: {', '.join(columns)}")
    return chosen


def make_networkx_pairs(rows: pa.Table, source: str | None, target: str | None) -> Any:  # noqa: ANN401
    """Build a directed graph with an edge for each row; the other columns are its attributes."""
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
    """Build a directed graph of whole types: a node is `(type, id)`, with its properties."""
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
    """Build a `HeteroData`: numbers, booleans and vectors as tensors, and the ids as lists."""
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
    """Return the columns that fit tensors: numbers, booleans and vectors without nulls."""
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
    """Return the endpoints of edges as indexes into the ids of their types, in two rows."""
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


MAX_NODES = 300
MAX_ARROWS = 2_000
_SIZE, _MARGIN, _RADIUS = 640.0, 60.0, 9.0
_STEPS = 150
_MAX_LABEL_LENGTH = 24

Points = npt.NDArray[np.float64]


class Svg(str):
    """An SVG document; notebooks show it as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Picture:
    """Node names, and the arrows between them by index."""

    names: tuple[str, ...]
    arrows: tuple[tuple[int, int], ...]
    left_out: int


def draw_rows(rows: pa.Table, source: str | None, target: str | None) -> Svg:
    """Draw the rows as arrows from a source column to a target column."""
    columns = rows.schema.names
    if len(columns) < 2 and (source is None or target is None):
        raise BadRequest("a plot needs two columns: where arrows start and where they end")
    chosen = (source or columns[0], target or columns[1])
    for name in chosen:
        if name not in columns:
            raise BadRequest(f"no such column '{name}'; the columns are: {', '.join(columns)}")
    pairs = encode_rows(rows.select(list(dict.fromkeys(chosen))))
    return draw(select_arrows([(row[chosen[0]], row[chosen[1]]) for row in pairs]))


def select_arrows(pairs: list[tuple[object, object]]) -> Picture:
    """Select the arrows to draw, each once and without nulls; the rest is counted."""
    numbers: dict[str, int] = {}
    arrows: dict[tuple[int, int], None] = {}
    left_out = 0
    for pair in pairs:
        names = [str(end) for end in pair if end is not None]
        new = [name for name in dict.fromkeys(names) if name not in numbers]
        if len(numbers) + len(new) > MAX_NODES or len(arrows) >= MAX_ARROWS:
            left_out += 1
            continue
        for name in new:
            numbers[name] = len(numbers)
        if len(names) == 2:
            arrows[numbers[names[0]], numbers[names[1]]] = None
    return Picture(tuple(numbers), tuple(arrows), left_out)


def draw(picture: Picture) -> Svg:
    """Render the picture as an SVG document; the layout is deterministic."""
    points = _arrange_nodes(len(picture.names), picture.arrows)
    lines = "".join(_draw_arrow(points[a], points[b]) for a, b in picture.arrows)
    circles = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:g}"><title>{html.escape(name)}</title>'
        f'</circle><text x="{x:.1f}" y="{y - _RADIUS - 3:.1f}">'
        f"{html.escape(_shorten_label(name))}</text>"
        for name, (x, y) in zip(picture.names, points, strict=True)
    )
    note = f"{picture.left_out} rows are not drawn" if picture.left_out else ""
    return Svg(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE:g} {_SIZE:g}" '
        f'width="{_SIZE:g}" height="{_SIZE:g}" font-family="sans-serif" font-size="11">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#888"/></marker></defs>'
        f'<g fill="none" stroke="#888" marker-end="url(#tip)">{lines}</g>'
        f'<g fill="#4a7ebb" text-anchor="middle">{circles}</g>'
        f'<text x="8" y="{_SIZE - 8:g}">{note}</text></svg>'
    )


def _shorten_label(name: str) -> str:
    return name if len(name) <= _MAX_LABEL_LENGTH else name[: _MAX_LABEL_LENGTH - 1] + "…"


def _draw_arrow(start: Points, end: Points) -> str:
    away = end - start
    length = float(np.hypot(*away))
    if length < 1e-9:  # an arrow to itself is a small loop
        x, y = start
        return f'<path d="M{x + _RADIUS:.1f} {y:.1f}c26 -30 26 30 0 4"/>'
    tail, tip = start + away * (_RADIUS / length), end - away * (_RADIUS / length)
    return f'<path d="M{tail[0]:.1f} {tail[1]:.1f}L{tip[0]:.1f} {tip[1]:.1f}"/>'


def _arrange_nodes(count: int, arrows: tuple[tuple[int, int], ...]) -> Points:
    """Compute a force-directed layout: connected nodes are close, others apart.

    Nodes repel each other and arrows attract, with a step size that decreases.
    """
    if count == 0:
        return np.zeros((0, 2))
    angles = np.arange(count) * (math.pi * (3 - math.sqrt(5)))  # spread without a pattern
    points = np.sqrt((np.arange(count) + 0.5) / count)[:, None] * np.stack(
        [np.cos(angles), np.sin(angles)], axis=1
    )
    ends = np.array([pair for pair in arrows if pair[0] != pair[1]], dtype=np.intp).reshape(-1, 2)
    wanted = 1.5 / math.sqrt(count)
    for step in range(_STEPS):
        apart = points[:, None, :] - points[None, :, :]
        distance = np.maximum(np.hypot(apart[..., 0], apart[..., 1]), 1e-6)
        moves = (apart * (wanted**2 / distance**2)[..., None]).sum(axis=1) - 0.05 * points
        pull = points[ends[:, 0]] - points[ends[:, 1]]
        pull *= (np.hypot(pull[:, 0], pull[:, 1]) / wanted)[:, None]
        np.subtract.at(moves, ends[:, 0], pull)
        np.add.at(moves, ends[:, 1], pull)
        reach = np.maximum(np.hypot(moves[:, 0], moves[:, 1]), 1e-9)
        most = 0.15 * (1 - step / _STEPS)
        points = points + moves * (np.minimum(reach, most) / reach)[:, None]
    low, high = points.min(axis=0), points.max(axis=0)
    scale = (_SIZE - 2 * _MARGIN) / max(float((high - low).max()), 1e-9)
    middle = (low + high) / 2
    return np.asarray((points - middle) * scale + _SIZE / 2, dtype=np.float64)
