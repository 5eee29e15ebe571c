"""Differences, whole types and checks of queries: the same through a server as in storage."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.errors import NotServed, OmniError
from server.conftest import make_people
from server.serving import ADD, serving

RENAME = 'query q() { update Person set { age: 37 } where name = "Ada" }'
FORGET = 'query q() { delete Knows where id = "k1" }'


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A graph in storage and the same graph behind a server, with a branch that has other rows."""
    place = make_people(tmp_path_factory.mktemp("served") / "people.omni")
    with omnigraph.open(place) as stored:
        stored.create_branch("side")
        for text, params in ((ADD, {"name": "Cy"}), (RENAME, None), (FORGET, None)):
            stored.mutate(text, None, params, branch="side")
        with serving(place) as server:
            url = f"http://{server.address}{server.graph}"
            with omnigraph.connect(url) as served:
                yield stored, served


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"images": True},
        {"kinds": ["node"], "images": True},
        {"types": ["Person"], "ops": ["update"]},
        {"ops": ["delete"]},
    ],
    ids=str,
)
def test_a_difference_has_the_same_changes_counts_and_tables(both, given) -> None:
    stored, served = (graph.diff("main", "side", **given) for graph in both)
    assert list(served) == list(stored)
    assert served.stats == stored.stats
    assert served.count().wire() == stored.count().wire()
    assert served.is_empty is stored.is_empty is False
    assert {name: table.to_pylist() for name, table in served.to_arrow().items()} == {
        name: table.to_pylist() for name, table in stored.to_arrow().items()
    }
    assert [one.schema for one in served.to_arrow().values()] == [
        one.schema for one in stored.to_arrow().values()
    ]


def test_a_difference_is_of_the_states_at_the_time_of_its_request(both) -> None:
    stored, served = both
    stored.create_branch("moving", source="side")
    found = served.diff("main", "moving")
    before = list(found)
    stored.mutate(ADD, None, {"name": "Di"}, branch="moving")
    assert list(found) == before
    assert len(list(served.diff("main", "moving"))) == len(before) + 1
    assert served.branch("moving").diff("side").stats["Person"].inserted == 1
    stored.delete_branch("moving")


def test_no_difference_is_empty(both) -> None:
    for graph in both:
        found = graph.diff("main", "main")
        assert (found.is_empty, list(found), dict(found.to_arrow())) == (True, [], {})


@pytest.mark.parametrize(
    "call",
    [
        lambda g: g.diff("nowhere"),
        lambda g: g.diff("main", "nowhere"),
        lambda g: g.diff("main", kinds=["thing"]),
        lambda g: g.diff("main", types=["Nothing"]),
        lambda g: g.nodes("Knows"),
        lambda g: g.edges("Nothing"),
        lambda g: g.nodes("Person", branch="nowhere"),
    ],
)
def test_mistakes_are_reported_at_once_and_alike(both, call) -> None:
    said = []
    for graph in both:
        with pytest.raises(OmniError) as raised:
            call(graph)
        said.append((type(raised.value), str(raised.value)))
    assert said[0] == said[1]


def test_all_rows_of_a_type_are_the_same(both) -> None:
    stored, served = both
    for name, kind in (("Person", "nodes"), ("Knows", "edges"), ("knows", "edges")):
        here, there = (getattr(graph, kind)(name) for graph in (served, stored))
        assert here.to_arrow().equals(there.to_arrow()), name
        assert here.arrow_schema == there.arrow_schema
        assert len(here) == len(there) == sum(batch.num_rows for batch in here.batches())
    assert len(served.edges("Knows", branch="side")) == 0
    assert served.edges("Knows", branch="side").to_arrow().num_rows == 0
    assert repr(served.nodes("Person")).startswith("ServedTypeRows('node:Person'")


def test_rows_of_a_view_stay_those_of_the_view(both) -> None:
    stored, served = both
    stored.create_branch("moving")
    rows = served.at("moving").nodes("Person")
    before = rows.to_arrow()
    stored.mutate(ADD, None, {"name": "Di"}, branch="moving")
    assert rows.to_arrow().equals(before)
    assert len(rows) == before.num_rows
    stored.delete_branch("moving")


def test_the_feed_lists_the_existing_commits(both) -> None:
    stored, served = both
    there = [block.commit for block in stored.changes("beginning", branch="side").blocks]
    here = [block.commit for block in served.changes("beginning", branch="side").blocks]
    assert [(one.commit_id, one.manifest_version) for one in here] == [
        (one.commit_id, one.manifest_version) for one in there
    ]
    newest = served.entity_history("Person", "Ada", branch="side").versions[0].commit
    assert newest.manifest_version == served.commit(newest.commit_id).manifest_version > 0


def test_queries_are_checked_alike(both) -> None:
    stored, served = both
    text = (
        "query good() { match { $p: Person } return { $p.name } } "
        "query bad() { match { $p: Persn } return { $p.name } } "
        'query fixed() { insert Person { name: "X" } }'
    )
    for one in (text, "query {"):
        here, there = served.lint(one), stored.lint(one)
        assert (here.results, here.findings) == (there.results, there.findings)
        assert (here.status, here.lines()) == ("error", there.lines())
        assert served.at("side").lint(one).results == there.results
    assert here.schema_source == {"kind": "graph", "uri": served.uri}


def test_a_member_without_a_route_is_refused_by_name(both) -> None:
    _, served = both
    found = served.diff("main", "side")
    for ask in (
        lambda: found.batches(),
        lambda: found.before,
        lambda: served.nodes("Person").to_spark(),
    ):
        with pytest.raises(NotServed):
            ask()
