"""One random load that leaves bad rows out, and what it must amount to.

Whatever is left of the input after the rows it left out must load without a complaint, by the small
path, and give the same graph.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import omnigraph
from omnigraph.errors import OmniError
from pipeline.load_engines import described, load, outcome
from pipeline.random_loads import MODES, Inputs, normal

KEYED = ("Person", "Slot")


@dataclass(frozen=True)
class SkippedRows:
    """The outcome of a load that skips errors, with the lines it left out."""

    contents: tuple[str, ...]
    counts: object
    error: object
    total: int
    named: frozenset[int]
    lines: frozenset[int]


def compare_left(templates, tmp_path: Path, seed: int, engines: tuple[str, ...]) -> str:
    data = Inputs(seed, paired=True).lines().encode()
    mode, template = MODES[seed % 3], templates(seed % 5)
    what = f"seed {seed}, mode {mode}:\n{data.decode()}"
    ended = [leave_out(template, tmp_path / f"{seed}-{one}", data, mode, one) for one in engines]
    first = ended[0]
    for engine, other in zip(engines[1:], ended[1:], strict=True):
        assert other == first, f"{engine}, {what}"
    strict = outcome(template, tmp_path / f"{seed}-strict", data, mode, "small")
    if first.error is not None:
        # An existing row that loses an end or its edges is never skipped by a load.
        assert (mode, first.error[0]) == ("overwrite", "rules"), what
        assert strict.error is not None, what
        return "refused"
    assert first.total == len(first.lines), what
    assert first.named == first.lines, what
    if strict.error is None:
        assert first.total == 0, what
    rest = outcome(
        template, tmp_path / f"{seed}-rest", without(data, first.lines, mode), mode, "small"
    )
    assert (rest.error, rest.contents) == (None, first.contents), what
    return "left out" if first.total else "loaded"


def leave_out(template: Path, place: Path, data: bytes, mode: str, engine: str) -> SkippedRows:
    shutil.copytree(template, place)
    rejects = place.with_suffix(".rejects")
    graph = omnigraph.open(place)
    before = len(graph.commits())
    counts, error, total, named = None, None, 0, frozenset()
    try:
        result = load(graph, data, mode, engine, on_error="skip", rejects=rejects)
        counts = (dict(result.nodes), dict(result.edges))
        total = result.skipped.total
        named = frozenset(problem.line for problem in result.skipped.first)
    except OmniError as raised:
        error = described(raised)
    graph = omnigraph.open(place)
    assert graph.recovery_pending() == []
    has_loaded = counts is not None and any(loaded for part in counts for loaded in part.values())
    assert len(graph.commits()) == before + has_loaded
    assert graph.verify(deep=True).findings == ()
    contents = tuple(normal(graph.export()))
    lines = frozenset(json.loads(line)["line"] for line in rejects.read_text().splitlines())
    rejects.unlink()
    shutil.rmtree(place)
    return SkippedRows(contents, counts, error, total, named, lines)


def without(data: bytes, left: frozenset[int], mode: str) -> bytes:
    """The input without these lines, and without those a line left out had superseded."""
    lines = data.decode().splitlines()
    gone = set(left)
    if mode == "merge":
        gone |= superseded(lines, left)
    return "".join(line + "\n" for at, line in enumerate(lines, 1) if at not in gone).encode()


def superseded(lines: list[str], left: frozenset[int]) -> set[int]:
    """The lines whose id stands once more further down, in a line that could be read."""
    places: dict[tuple[str, str], list[int]] = {}
    for at, line in enumerate(lines, 1):
        try:
            record = json.loads(line) if line else {}
        except ValueError:
            continue
        name = record.get("type", record.get("edge")) if isinstance(record, dict) else None
        if name not in (None, *KEYED) and "id" in record.get("data", {}):
            places.setdefault((name, record["data"]["id"]), []).append(at)
    return {at for ats in places.values() for at in ats[:-1] if ats[-1] in left}
