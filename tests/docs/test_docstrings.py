"""The examples in docstrings of the public classes run, each on a small graph of its own."""

from __future__ import annotations

import doctest
from inspect import isfunction
from pathlib import Path

import pytest

import omnigraph
from omnigraph.client import served_graph
from omnigraph.graph import (
    blobs,
    branches,
    changes,
    embedding,
    graph,
    graph_view,
    loading,
    maintenance,
    merges,
    mutations,
    queries,
    reads,
    schema_changes,
    undo,
)
from omnigraph.graph.conversion import row_formats
from omnigraph.interchange import import_files

SCHEMA = "node Person { name: String @key  age: I32?  photo: Blob? }\nedge Knows: Person -> Person"
RECORDS = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "photo": "base64:cGl4ZWxz"}},
    {"type": "Person", "data": {"name": "Ben"}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1"}},
]
VERBS = (
    reads,
    mutations,
    loading,
    branches,
    merges,
    undo,
    changes,
    schema_changes,
    maintenance,
)
EXAMPLES = [
    found
    for module in (
        graph,
        *VERBS,
        graph_view,
        queries,
        blobs,
        embedding,
        row_formats,
        served_graph,
        import_files,
    )
    for found in doctest.DocTestFinder().find(module, module.__name__)
    if found.examples
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_gives_what_it_says(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    people = omnigraph.init("people.omni", SCHEMA, actor="maria")
    people.load(RECORDS, "append")
    # A reader has these two names, and the function whose docstring it is.
    own = example.name.rpartition(".")[2]
    known = {own: example.globs[own]} if own in example.globs else {}
    example.globs = {**known, "omnigraph": omnigraph, "graph": people}
    said: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert outcome.failed == 0, "".join(said)


SHOWN = {".".join(example.name.rsplit(".", 2)[-2:]) for example in EXAMPLES}
SHOWN_BY_THEIR_CLASS = {"QueryResult.to_arrow", "Blob.read"}
WITHOUT = {
    "GraphView.to_pyg",  # needs PyTorch
    "Graph.close",  # what `with` is for
    "QueryResult.to_pandas",  # not installed here
    "QueryResult.write_arrow",  # as write_parquet
}


def verbs(kind: type) -> list[str]:
    """The public methods of a class that do not merely repeat one of `Graph`."""
    own = [n for n, member in vars(kind).items() if not n.startswith("_") and callable(member)]
    return [name for name in own if kind in graph.Graph.__mro__ or name not in dir(graph.Graph)]


@pytest.mark.parametrize(
    "kind",
    [*graph.Graph.__mro__[:-1], graph_view.GraphView, queries.QueryResult, blobs.Blob],
    ids=lambda kind: kind.__name__,
)
def test_every_verb_is_shown_by_an_example(kind: type) -> None:
    wanted = {f"{kind.__name__}.{name}" for name in verbs(kind)}
    assert wanted - SHOWN - SHOWN_BY_THEIR_CLASS - WITHOUT == set()


def test_every_function_of_the_package_is_shown_by_an_example() -> None:
    functions = [one for name in omnigraph.__all__ if isfunction(one := getattr(omnigraph, name))]
    assert {one.__name__ for one in functions} == {
        "init",
        "open",
        "connect",
        "clone",
        "embed",
        "import_files",
        "import_networkx",
        "infer_schema",
        "quarantine",
    }
    homes = {f"{one.__module__.rsplit('.', 1)[-1]}.{one.__name__}" for one in functions}
    assert homes <= SHOWN
