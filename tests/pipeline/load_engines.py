"""Run a load through each engine and compare the outcomes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import msgspec

import omnigraph
from omnigraph.errors import (
    ConstraintViolated,
    KeyConflict,
    OmniError,
    RowsRejected,
)
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.graph import apply_load
from omnigraph.graph.apply_load import GraphLoadRequest
from omnigraph.graph.conversion.load_inputs import as_input, plan_input
from omnigraph.graph.engines import EngineOptions
from omnigraph.output_files import OutputFile
from omnigraph.storage.tables.location import is_flat_name
from omnigraph.writer.change import WriteOptions
from pipeline.random_loads import normal

ENGINES = ("small", "inline", "spark")


@dataclass(frozen=True)
class Ended:
    """Either what the graph holds and what was counted, or what was wrong and where."""

    contents: tuple[str, ...]
    counts: object = None
    error: object = None


def load(graph, data, mode: str, engine: str, **options):
    """A load; `small` is the path for input in one piece, the others are the pipeline."""
    match engine:
        case "small":
            return graph.load(data, mode, **options)
        case "spark":
            return graph.load(data, mode, engine="spark", **options)
        case "inline":
            branch, base = options.pop("branch", "main"), options.pop("base", None)
            head = options.pop("expected_head", None)
            runs_on = EngineOptions(engine="local", spark_conf=options.pop("spark_conf", {}))
            if "rejects" in options:
                options["rejects"] = OutputFile(options["rejects"])
            asked = LoadOptions(mode=LoadMode(mode), **options)
            given, asked = as_input(data, asked, lambda: graph.catalog)
            given = plan_input(given, "spark", asked)  # by tasks, whatever runs them
            write = WriteOptions(branch=branch, expected_head=head)
            request = GraphLoadRequest(asked, write, base=base)
            return apply_load.load(graph._open.writer, given, request, runs_on)


def outcome(template: Path, place: Path, data: bytes | str, mode: str, engine: str) -> Ended:
    """Return the outcome of a load into a copy of a graph."""
    shutil.copytree(template, place)
    graph = omnigraph.open(place)
    before = len(graph.commits())
    counts, error = None, None
    try:
        result = load(graph, data, mode, engine)
        counts = (dict(result.nodes), dict(result.edges))
    except OmniError as raised:
        error = described(raised)
    graph = omnigraph.open(place)
    assert graph.recovery_pending() == []
    has_loaded = counts is not None and any(loaded for part in counts for loaded in part.values())
    assert len(graph.commits()) == before + has_loaded
    contents = tuple(normal(graph.export()))
    assert not list((place / "__staging").glob("*/*")), "staged rows are left behind"
    shutil.rmtree(place)
    return Ended(contents, counts, error)


def described(error: OmniError) -> tuple:
    """An error with all positions that it reports."""
    match error:
        case RowsRejected():
            return "rows", error.total, error.problems
        case ConstraintViolated():
            return "rules", error.total, tuple(map(_without_minted, error.violations))
        case KeyConflict():
            return "key", error.table_key, error.id, error.line
        case _:
            return type(error).__name__, str(error)


def _without_minted(violation):
    """The violation without an id that was made by the load, and differs with every load."""
    is_minted = violation.id is not None and is_flat_name(violation.id)
    return msgspec.structs.replace(violation, id=None) if is_minted else violation
