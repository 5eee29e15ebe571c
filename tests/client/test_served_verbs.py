"""Verbs of an embedded graph that a served graph has, and those it refuses."""

from __future__ import annotations

import inspect

import pytest

import omnigraph
from omnigraph.client.served_graph import ServedBranch, ServedGraph
from omnigraph.client.served_object import UNSERVED
from omnigraph.client.served_results import (
    ServedBaseline,
    ServedBlob,
    ServedDiff,
    ServedQueryResult,
    ServedTypeRows,
)
from omnigraph.client.served_view import ServedView
from omnigraph.errors import BadRequest, NotServed
from omnigraph.graph.conversion.row_formats import TypeRows
from omnigraph.history.diff import Diff

PAIRS = [
    (omnigraph.Graph, ServedGraph),
    (omnigraph.Branch, ServedBranch),
    (omnigraph.GraphView, ServedView),
]


def list_public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("embedded", "served"), PAIRS)
def test_every_verb_is_served_or_refused_by_name(embedded, served) -> None:
    extra = list_public(served) - list_public(embedded)
    assert not extra
    assert list_public(embedded) - list_public(served) <= UNSERVED.keys()
    assert not list_public(served) & UNSERVED.keys() - {"schema"}


def test_nothing_is_refused_that_no_graph_has() -> None:
    known = set().union(*(list_public(embedded) for embedded, _ in PAIRS))
    known |= list_public(Diff) | list_public(TypeRows) | list_public(omnigraph.QueryResult)
    assert UNSERVED.keys() - known == {"before", "after"}, "those of a Diff are made with it"


@pytest.mark.parametrize(("embedded", "served"), PAIRS)
def test_verbs_take_the_same_arguments(embedded, served) -> None:
    for name in sorted(list_public(embedded) & list_public(served)):
        there, here = getattr(embedded, name), getattr(served, name)
        if not inspect.isfunction(there):
            continue
        shapes = [
            [
                (one.name, one.kind, one.default)
                for one in inspect.signature(verb).parameters.values()
            ]
            for verb in (there, here)
        ]
        assert shapes[0] == shapes[1], name


@pytest.mark.parametrize(
    ("embedded", "served"),
    [
        (omnigraph.QueryResult, ServedQueryResult),
        (omnigraph.Blob, ServedBlob),
        (omnigraph.Baseline, ServedBaseline),
        (Diff, ServedDiff),
        (TypeRows, ServedTypeRows),
    ],
)
def test_results_are_those_of_an_embedded_graph(embedded, served) -> None:
    assert issubclass(served, embedded)


@pytest.mark.parametrize("verb", ["verify", "optimize", "embed", "export_files"])
def test_a_verb_without_a_route_says_so(verb: str) -> None:
    graph = omnigraph.connect("http://127.0.0.1:9/graphs/g")
    with pytest.raises(NotServed, match=f"'{verb}' is not available on a served graph"):
        getattr(graph, verb)()
    with pytest.raises(AttributeError):
        _ = graph.no_such_thing


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.query("query q() { match { $p: P } return { $p.x } }", engine="spark"),
        lambda g: g.load([], "append", on_error="skip"),
        lambda g: g.load("a.parquet", "append"),
        lambda g: g.merge("a", engine="spark"),
        lambda g: g.apply_schema("", engine="spark"),
        lambda g: g.changes(max_bytes=5),
    ],
)
def test_an_argument_that_no_route_takes_is_refused_before_anything_is_sent(call) -> None:
    with pytest.raises(NotServed):
        call(omnigraph.connect("http://127.0.0.1:9/graphs/g"))


def test_no_actor_can_be_given() -> None:
    graph = omnigraph.connect("http://127.0.0.1:9/graphs/g")
    with pytest.raises(BadRequest, match="takes the actor from the token"):
        graph.mutate("query q() { delete P where x = 1 }", actor="maria")
