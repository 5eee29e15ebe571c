"""A branch has the verbs of its graph, with the same parameters and the same answers."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Branch, Graph, GraphView
from omnigraph.errors import BadRequest
from omnigraph.identity import BranchName
from omnigraph.settings import Settings
from omnigraph.storage.refs import read_ref

ONLY_OF_A_GRAPH = {
    "recovered_on_open": "happened before there was a branch",
    "close": "ends the handle, not a branch",
    "branch": "is what gave this object",
    "branches": "lists them all",
    "delete_branch": "is `delete()` here",
    "rename_branch": "is `rename()` here",
    "tags": "lists them all",
    "consumers": "lists them all",
    "delete_consumer": "is about a consumer, whatever it reads",
    "delete_tag": "is about a tag, wherever its commit was made",
    "repair": "looks at the tables of `main` only",
    "cleanup": "keeps what any branch needs, so it is about all of them",
    "verify": "looks at everything there is",
    "maintain": "follows the policy of the whole graph",
    "recover": "recovers interrupted writes of every branch",
    "recovery_pending": "shows interrupted writes wherever they were made",
    "as_actor": "the whole graph for another actor",
    "with_queries": "queries that are run on any branch",
}
"""Verbs that make no sense on one branch, and why."""
ONLY_OF_A_BRANCH = {"name", "revision", "delete", "rename"}
BOUND = {"branch", "source"}
"""The names of the branch parameter of the verbs of a graph."""


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers_static(kind) if not name.startswith("_")}


def signature(kind: type, name: str) -> inspect.Signature:
    member = inspect.getattr_static(kind, name)
    return inspect.signature(member.fget if isinstance(member, property) else member)


def unbound(kind: type, name: str) -> inspect.Signature:
    """Return the parameters that a verb of a graph has once it is bound to a branch."""
    found = signature(kind, name)
    left = [p for p in found.parameters.values() if p.name not in BOUND]
    return found.replace(parameters=left)


def test_every_verb_of_a_graph_is_on_a_branch_unless_it_makes_no_sense_there() -> None:
    assert public(Graph) - public(Branch) == set(ONLY_OF_A_GRAPH)
    assert public(Branch) - public(Graph) == ONLY_OF_A_BRANCH


@pytest.mark.parametrize("name", sorted(public(Graph) & public(Branch)))
def test_a_verb_of_a_branch_is_that_of_the_graph(name: str) -> None:
    assert inspect.getattr_static(Branch, name) is inspect.getattr_static(Graph, name)


@pytest.mark.parametrize("name", sorted(public(Graph) & public(GraphView)))
def test_a_verb_of_a_view_takes_what_that_of_the_graph_takes(name: str) -> None:
    assert signature(GraphView, name) == unbound(Graph, name)


@pytest.mark.parametrize("name", sorted(ONLY_OF_A_GRAPH))
def test_a_verb_that_takes_a_branch_is_on_branches(name: str) -> None:
    assert not BOUND & set(signature(Graph, name).parameters)


# --- what they do -----------------------------------------------------------------------------

SCHEMA = (
    "node Person { name: String @key  age: I32?  photo: Blob?"
    '  feel: Vector(3)? @embed("name") }\nedge Knows: Person -> Person'
)
COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
ADD = "query q($n: String) { insert Person { name: $n } }"


@pytest.fixture
def review(tmp_path: Path) -> Branch:
    """A branch with two people and an edge more than `main`, which has one person."""
    given = {"OMNIGRAPH_EMBED_PROVIDER": "mock", "OMNIGRAPH_EMBED_WRITES": "false"}
    settings = Settings.from_environment(given)
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA, actor="maria", settings=settings)
    graph.mutate(ADD, params={"n": "Ada"})
    graph.create_branch("review")
    branch = graph.branch("review")
    branch.load(
        [
            {"type": "Person", "data": {"name": "Ben", "photo": "base64:AA=="}},
            {"type": "Person", "data": {"name": "Cy"}},
            {"edge": "Knows", "from": "Ada", "to": "Ben"},
        ],
        "append",
        actor="ben",
    )
    return branch


def test_reading_verbs_read_the_branch(review: Branch) -> None:
    assert review.query(COUNT).rows == [{"n": 3}]
    assert (len(review.nodes("Person")), len(review.edges("Knows"))) == (3, 1)
    assert (len(review.graph.nodes("Person")), len(review.graph.edges("Knows"))) == (1, 0)
    assert review.read_blob("Person", "Ben", "photo").read() == b"\0"
    assert len(list(review.export(["Person"]))) == 3
    assert review.explain(COUNT).startswith("query q()")
    assert review.lint(COUNT).status == "ok"
    assert review.schema == SCHEMA
    assert "Person" in review.catalog.nodes
    with pytest.raises(BadRequest, match="engine 'cluster'"):
        review.query(COUNT, engine="cluster")


def test_writing_verbs_write_to_the_branch_as_the_requesting_actor(review: Branch) -> None:
    assert review.commits()[0].actor_id == "ben"
    assert review.mutate(ADD, params={"n": "Di"}, actor="cy").commit.actor_id == "cy"
    assert review.mutate(ADD, params={"n": "Eve"}).commit.actor_id == "maria"
    filled = review.embed(["Person"], actor="di")
    assert (filled.branch, filled.embedded) == ("review", 5)
    assert review.commit(filled.commit_id).actor_id == "di"
    assert review.optimize(actor="eve").commit.actor_id == "eve"
    assert review.ensure_indices() == ()
    assert review.graph.query(COUNT).rows == [{"n": 1}]


def test_history_is_that_of_the_branch(review: Branch) -> None:
    newest, oldest = review.commits()[0], review.commits()[-1]
    assert review.commit(newest.commit_id) == newest
    assert review.at().commit_id == newest.commit_id
    assert list(review.at(snapshot=oldest.commit_id).export()) == []
    assert review.at(version=newest.manifest_version).query(COUNT).rows == [{"n": 3}]
    assert review.snapshot().graph_branch == "review"
    assert review.recovery_list() == ()


def test_a_branch_is_created_from_another_as_the_requesting_actor(review: Branch) -> None:
    second = review.create_branch("second", actor="dora")
    assert (second.parent, second.actor_id) == ("review", "dora")
    earlier = review.create_branch("earlier", commit=review.commits()[1].commit_id)
    assert earlier.actor_id == "maria"
    assert review.graph.branch("earlier").query(COUNT).rows == [{"n": 1}]
    assert review.graph.create_branch("third", actor="emil").actor_id == "emil"
    review.graph.branch("second").delete()
    assert review.graph.branches() == ["main", "earlier", "review", "third"]


def test_a_verb_of_a_branch_may_name_another_one(review: Branch) -> None:
    assert review.query(COUNT, branch="main").rows == [{"n": 1}]
    assert review.create_branch("second", source="main").parent == "main"


def test_a_merge_changes_the_branch_whose_verb_it_is(review: Branch) -> None:
    review.graph.mutate(ADD, params={"n": "Di"})
    review.merge("main")
    assert review.query(COUNT).rows == [{"n": 4}]
    assert review.graph.query(COUNT).rows == [{"n": 2}]
    review.graph.branch("main").merge("review")
    assert review.graph.query(COUNT).rows == [{"n": 4}]


def test_the_creator_of_a_branch_is_recorded(review: Branch) -> None:
    review.create_branch("second", actor="dora")
    root = review.at().view.snapshot.root
    assert read_ref(root.store, BranchName("second")).actor_id == "dora"


def test_an_unknown_argument_is_named(review: Branch) -> None:
    for load in (review.load, review.graph.load):
        with pytest.raises(TypeError, match=r"load\(\) got an unexpected keyword.*'tpye'"):
            load([], "append", tpye="Person")  # type: ignore[call-arg]


def test_a_view_and_a_branch_say_what_they_are(review: Branch) -> None:
    uri, newest = review.graph.uri, review.commits()[0].commit_id
    assert repr(review) == f"Branch({uri!r}, 'review')"
    assert repr(review.at()) == f"GraphView({uri!r}, 'review', {newest!r})"
    assert repr(review.at().view) == f"CatalogSnapshot({uri!r}, 'review', {newest!r})"
    oldest = review.commits()[-1].commit_id
    assert repr(review.graph.at(commit=oldest)) == f"GraphView({uri!r}, 'main', {oldest!r})"


def test_a_view_and_a_branch_show_their_types(review: Branch) -> None:
    page = review._repr_html_()
    assert page == review.at()._repr_html_()
    assert "<td>Person</td><td>node</td><td>3</td>" in page
    assert f"branch review at {review.commits()[0].commit_id}" in page
    assert "<td>Person</td><td>node</td><td>1</td>" in review.graph.at()._repr_html_()
