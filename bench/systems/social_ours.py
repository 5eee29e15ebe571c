"""The social network in a graph, queried through the library as by a program."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import lance

import omnigraph
from bench.generators.files import write_jsonl
from bench.generators.social import social_graph
from bench.systems.neighbourhoods import Ask, ask_around
from bench.systems.questions import PARAMETERS, AskByName, Given, Rows, ask_all, texts

GRAPH = "graph"
# The library imports it when it first needs it, which is no part of opening a graph.
_IMPORTED_BEFORE = lance


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    load_network(spec)
    return {}


def load_network(spec: dict[str, Any]) -> omnigraph.Graph:
    """The network as one commit, with every check, and the indices it declares."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    network = social_graph(parameters["seed"], parameters["persons"])
    lines = root / "network.jsonl"
    write_jsonl(network, lines)
    graph = omnigraph.init(root / GRAPH, network.schema_text)
    graph.load(lines, "append", engine="local")
    graph.ensure_indices()
    lines.unlink()
    return graph


def run_questions(spec: dict[str, Any]) -> dict[str, Any]:
    """The nine questions on `main` as it is."""
    asked = texts("social.gq")

    def open_it() -> AskByName:
        graph = _open(spec)
        return lambda name: _rows(graph, asked[name], PARAMETERS.get(name))

    return ask_all(spec, open_it)


def run_neighbourhoods(spec: dict[str, Any]) -> dict[str, Any]:
    """Look-ups by identity, and neighbourhoods."""

    def open_it() -> Ask:
        graph = _open(spec)
        return lambda question, person: _rows(graph, _text(question), {"id": str(person)})

    return ask_around(spec, open_it, is_fast=True)


@cache
def _text(question: str) -> str:
    asked = texts("social.gq")
    if question == "point":
        return asked["point"]
    return asked["hops"].replace("HOPS", question.removeprefix("hops"))


def _open(spec: dict[str, Any]) -> omnigraph.Graph:
    return omnigraph.open(Path(spec["store"]) / GRAPH, read_only=True)


def _rows(graph: omnigraph.Graph, text: str, parameters: Given | None) -> Rows:
    return [list(row.values()) for row in graph.query(text, params=parameters).rows]
