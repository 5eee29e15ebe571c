"""The examples in docstrings of the public classes run, each on a small graph of its own."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import omnigraph
from omnigraph.graph import blobs, embedding, graph, pinned, query_result

SCHEMA = "node Person { name: String @key  age: I32?  photo: Blob? }\nedge Knows: Person -> Person"
RECORDS = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "photo": "base64:cGl4ZWxz"}},
    {"type": "Person", "data": {"name": "Ben"}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1"}},
]
EXAMPLES = [
    found
    for module in (graph, pinned, query_result, blobs, embedding)
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
    example.globs = {"omnigraph": omnigraph, "graph": people}
    said: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert outcome.failed == 0, "".join(said)


def test_the_verbs_people_start_with_have_an_example() -> None:
    shown = {example.name.rsplit(".", 1)[-1] for example in EXAMPLES}
    wanted = {"open", "query", "mutate", "branches", "commits", "snapshot", "at", "export", "lint"}
    assert wanted <= shown
