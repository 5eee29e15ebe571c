"""A small drawing of rows that are pairs: circles, arrows and names, as SVG."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.types.to_json import encode_rows

MOST_NODES = 300
MOST_ARROWS = 2_000
_SIZE, _MARGIN, _RADIUS = 640.0, 60.0, 9.0
_STEPS = 150
_LONGEST_NAME = 24

Places = npt.NDArray[np.float64]


class Svg(str):
    """An SVG document; notebooks show it as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Picture:
    """Names, and the arrows between them by number."""

    names: tuple[str, ...]
    arrows: tuple[tuple[int, int], ...]
    left_out: int


def draw_rows(rows: pa.Table, source: str | None, target: str | None) -> Svg:
    """The picture of a table with a source and a target column."""
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
    """What is drawn of the pairs: each arrow once, nulls are no ends, the rest is counted."""
    numbers: dict[str, int] = {}
    arrows: dict[tuple[int, int], None] = {}
    left_out = 0
    for pair in pairs:
        names = [str(end) for end in pair if end is not None]
        new = [name for name in dict.fromkeys(names) if name not in numbers]
        if len(numbers) + len(new) > MOST_NODES or len(arrows) >= MOST_ARROWS:
            left_out += 1
            continue
        for name in new:
            numbers[name] = len(numbers)
        if len(names) == 2:
            arrows[numbers[names[0]], numbers[names[1]]] = None
    return Picture(tuple(numbers), tuple(arrows), left_out)


def draw(picture: Picture) -> Svg:
    """The picture as an SVG document; the same picture always looks the same."""
    places = _arrange_nodes(len(picture.names), picture.arrows)
    lines = "".join(_draw_arrow(places[a], places[b]) for a, b in picture.arrows)
    circles = "".join(
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:g}"><title>{html.escape(name)}</title>'
        f'</circle><text x="{x:.1f}" y="{y - _RADIUS - 3:.1f}">'
        f"{html.escape(_shorten_label(name))}</text>"
        for name, (x, y) in zip(picture.names, places, strict=True)
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
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _draw_arrow(start: Places, end: Places) -> str:
    away = end - start
    length = float(np.hypot(*away))
    if length < 1e-9:  # an arrow to itself is a small loop
        x, y = start
        return f'<path d="M{x + _RADIUS:.1f} {y:.1f}c26 -30 26 30 0 4"/>'
    tail, tip = start + away * (_RADIUS / length), end - away * (_RADIUS / length)
    return f'<path d="M{tail[0]:.1f} {tail[1]:.1f}L{tip[0]:.1f} {tip[1]:.1f}"/>'


def _arrange_nodes(count: int, arrows: tuple[tuple[int, int], ...]) -> Places:
    """Places that keep nodes apart and connected ones together.

    Every node pushes every other one away and arrows pull, less and less far in each step.
    """
    if count == 0:
        return np.zeros((0, 2))
    angles = np.arange(count) * (math.pi * (3 - math.sqrt(5)))  # spread without a pattern
    places = np.sqrt((np.arange(count) + 0.5) / count)[:, None] * np.stack(
        [np.cos(angles), np.sin(angles)], axis=1
    )
    ends = np.array([pair for pair in arrows if pair[0] != pair[1]], dtype=np.intp).reshape(-1, 2)
    wanted = 1.5 / math.sqrt(count)
    for step in range(_STEPS):
        apart = places[:, None, :] - places[None, :, :]
        distance = np.maximum(np.hypot(apart[..., 0], apart[..., 1]), 1e-6)
        moves = (apart * (wanted**2 / distance**2)[..., None]).sum(axis=1) - 0.05 * places
        pull = places[ends[:, 0]] - places[ends[:, 1]]
        pull *= (np.hypot(pull[:, 0], pull[:, 1]) / wanted)[:, None]
        np.subtract.at(moves, ends[:, 0], pull)
        np.add.at(moves, ends[:, 1], pull)
        reach = np.maximum(np.hypot(moves[:, 0], moves[:, 1]), 1e-9)
        most = 0.15 * (1 - step / _STEPS)
        places = places + moves * (np.minimum(reach, most) / reach)[:, None]
    low, high = places.min(axis=0), places.max(axis=0)
    scale = (_SIZE - 2 * _MARGIN) / max(float((high - low).max()), 1e-9)
    middle = (low + high) / 2
    return np.asarray((places - middle) * scale + _SIZE / 2, dtype=np.float64)
