"""The whole life of a graph on an S3-compatible server."""

import pytest

import omnigraph
from omnigraph.errors import ConstraintViolated, KeyConflict, PreconditionFailed
from omnigraph.storage.objects.open_store import open_store
from s3_server import running_s3_server

pytestmark = pytest.mark.object_store

SCHEMA = """\
node Artist { slug: String @key  name: String  born: I32?  cover: Blob? }
node Album { slug: String @key  title: String }
edge Made: Artist -> Album @card(0..2)
"""
ADD = "query add($s: String) { insert Artist { slug: $s, name: $s } }"
COUNT = "query n() { match { $a: Artist } return { count($a) as n } }"


@pytest.fixture(scope="module")
def server():
    with running_s3_server() as running:
        yield running


@pytest.fixture
def graph(server):
    return omnigraph.init(server.new_root(), SCHEMA, settings=server.settings, actor="s3")


def count(graph, branch: str = "main") -> int:
    return graph.query(COUNT, branch=branch).rows[0]["n"]


def test_loading_querying_branching_and_looking_back(graph, server) -> None:
    graph.load(
        [
            {"type": "Artist", "data": {"slug": "ada", "name": "Ada", "cover": "base64:aGk="}},
            {"type": "Album", "data": {"slug": "tides", "title": "Slow Tides"}},
            {"edge": "Made", "from": "ada", "to": "tides"},
        ],
        "append",
    )
    first = graph.commits()[0].commit_id
    graph.create_branch("review")
    graph.branch("review").mutate(ADD, params={"s": "ben"})
    graph.branch("review").mutate('query q() { delete Artist where slug = "ada" }')
    graph.mutate(ADD, params={"s": "cy"})
    assert (count(graph), count(graph, "review")) == (2, 1)
    assert len(list(graph.at(commit=first).export())) == 3
    again = omnigraph.open(graph.uri, settings=server.settings)
    assert again.branches() == ["main", "review"]
    assert list(again.export()) == list(graph.export())
    graph.delete_branch("review")
    assert again.branches() == ["main"]


def test_rules_and_conflicts_are_the_same(graph) -> None:
    graph.mutate(ADD, params={"s": "ada"})
    head = graph.commits()[0].commit_id
    with pytest.raises(KeyConflict):
        graph.load([{"type": "Artist", "data": {"slug": "ada", "name": "A"}}], "append")
    with pytest.raises(ConstraintViolated):
        graph.load([{"edge": "Made", "from": "ada", "to": "ghost"}], "append")
    graph.mutate(ADD, params={"s": "ben"})
    with pytest.raises(PreconditionFailed):
        graph.mutate(ADD, params={"s": "cy"}, expected_head=head)
    assert count(graph) == 2


def test_two_handles_take_turns(graph, server) -> None:
    other = omnigraph.open(graph.uri, settings=server.settings)
    for number in range(4):
        graph.mutate(ADD, params={"s": f"a{number}"})
        other.mutate(ADD, params={"s": f"b{number}"})
    assert count(graph) == count(other) == 8
    parents = [commit.parent_commit_id for commit in graph.commits()]
    assert parents[:-1] == [commit.commit_id for commit in graph.commits()[1:]]
    assert graph.recovery_pending() == []


def test_a_graph_made_again_in_its_place_is_read_as_it_is(graph, server) -> None:
    named = "query n() { match { $a: Artist } return { $a.slug } }"
    graph.mutate(ADD, params={"s": "ada"})
    assert graph.query(named).rows == [{"a.slug": "ada"}]
    store = open_store(graph.uri, server.settings)
    for path in (*store.list(""), *store.list_prefixes("")):
        store.delete_prefix(path)
        store.delete(path)
    again = omnigraph.init(graph.uri, SCHEMA, settings=server.settings)
    again.mutate(ADD, params={"s": "ben"})
    for handle in (again, graph, omnigraph.open(graph.uri, settings=server.settings)):
        assert handle.query(named).rows == [{"a.slug": "ben"}]
    graph.mutate(ADD, params={"s": "cy"})
    assert count(again) == count(graph) == 2
