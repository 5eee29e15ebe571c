"""Stored queries: read from files, checked against a schema, listed and run by name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import omnigraph
from omnigraph import Graph
from omnigraph.errors import (
    BadRequest,
    CompileError,
    ParameterError,
    PolicyDenied,
    PreconditionFailed,
    QueryNotFound,
    SchemaBreaksQueries,
)
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_catalog
from omnigraph.policy import parse_bundle
from omnigraph.stored_queries import (
    check_queries,
    check_schema_change,
    load_registry,
    parse_registry,
)

SCHEMA = "node Person { name: String @key  age: I32?  email: String?  v: Vector(2)? }\n"
QUERIES = """
query older($than: I32, $names: [String]?) @description("by age") @instruction("ask") {
  match { $p: Person  $p.age > $than } return { $p.name } order { $p.name }
}
query set_age($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query near($to: Vector(2)) {
  match { $p: Person } return { $p.name } order { nearest($p.v, $to) } limit 1
}
query mail() { match { $p: Person } return { $p.email } }
"""
RULES = """
version: 1
groups: { agents: [bot], readers: [rita] }
rules:
  - id: run
    allow: { actors: { group: agents }, actions: [invoke_query], queries: [older, set_age, mail] }
  - id: read
    allow: { actors: { group: agents }, actions: [read], except: [Person.email] }
  - id: readers
    allow: { actors: { group: readers }, actions: [read] }
"""


def registry_of(*texts: str):
    return parse_registry(SourceText(text, f"{n}.gq") for n, text in enumerate(texts))


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA, actor="maria")
    records = [
        {"type": "Person", "data": {"name": n, "age": a}} for n, a in (("Ada", 36), ("Ben", 3))
    ]
    graph.load(records, "append")
    return graph.with_queries(registry_of(QUERIES))


def test_queries_are_read_from_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "b.gq").write_text("query b() { match { $p: Person } return { $p.name } }")
    (folder / "a.gq").write_text("query a() { match { $p: Person } return { $p.name } }")
    (folder / "notes.txt").write_text("not a query")
    (tmp_path / "c.gq").write_text("query c() { delete Person where age > 1 }")
    registry = load_registry(folder, tmp_path / "c.gq")
    assert [(one.name, one.is_mutation) for one in registry] == [
        ("a", False),
        ("b", False),
        ("c", True),
    ]
    assert len(registry) == 3
    assert registry.find("d") is None
    with pytest.raises(BadRequest, match="cannot read"):
        load_registry(tmp_path / "missing.gq")


def test_a_name_in_two_files_and_every_mistake_are_reported() -> None:
    one = "query a() { match { $p: Person } return { $p.name } }"
    with pytest.raises(CompileError) as caught:
        registry_of(one, f"\n{one}", "query b( {")
    reported = [(d.source, d.line, d.code) for d in caught.value.diagnostics]
    assert ("1.gq", 2, "P110") in reported
    assert reported[-1][0] == "2.gq"
    assert "is also defined in 0.gq" in caught.value.render()


def test_a_read_and_a_mutation_are_run_by_name(graph: Graph) -> None:
    found = graph.invoke("older", {"than": 30})
    assert found.rows == [{"p.name": "Ada"}]
    assert found.query_name == "older"
    assert found.commit_id == graph.commits()[0].commit_id
    done = graph.invoke("set_age", {"name": "Ben", "age": 50}, expected_head=found.commit_id)
    assert done.affected_nodes == 1
    assert done.commit == graph.commits()[0]
    assert len(graph.invoke("older", {"than": 30}, snapshot=found.commit_id).rows) == 1
    assert len(graph.branch("main").invoke("older", {"than": 30}).rows) == 2
    with pytest.raises(PreconditionFailed):
        graph.invoke("set_age", {"name": "Ben", "age": 1}, expected_head=found.commit_id)


def test_parameters_are_held_to_their_types(graph: Graph) -> None:
    for params in ({}, {"than": "x"}, {"than": 1, "other": 2}, {"than": None}):
        with pytest.raises(ParameterError):
            graph.invoke("older", params)


def test_the_kind_of_a_query_may_be_insisted_on(graph: Graph) -> None:
    commit = graph.commits()[0].commit_id
    for name, given, said in (
        ("older", {"expect_mutation": True}, "run it with `query`"),
        ("set_age", {"expect_mutation": False}, "run it with `mutate`"),
        ("set_age", {"snapshot": commit}, "a snapshot is fixed"),
        ("older", {"expected_head": commit}, "expects no head"),
    ):
        with pytest.raises(BadRequest, match=said):
            graph.invoke(name, {"than": 1}, **given)


def test_the_catalog_says_what_queries_take_and_give(graph: Graph) -> None:
    entries = {entry["name"]: entry for entry in graph.stored_queries()}
    assert list(entries) == ["mail", "near", "older", "set_age"]
    assert entries["older"] | {"returns": None} == {
        "name": "older",
        "tool_name": "older",
        "description": "by age",
        "instruction": "ask",
        "mutation": False,
        "params": [
            {"name": "than", "kind": "int", "nullable": False},
            {"name": "names", "kind": "list", "item_kind": "string", "nullable": True},
        ],
        "returns": None,
    }
    assert entries["older"]["returns"]["result"] == [
        {"name": "p.name", "kind": "string", "nullable": False}
    ]
    assert entries["set_age"]["returns"]["writes"] == [{"kind": "node", "type_name": "Person"}]


def test_queries_are_held_against_a_schema(graph: Graph) -> None:
    registry = registry_of(QUERIES)
    found = check_queries(registry, graph.catalog)
    assert found.ok
    assert [one.query for one in found.warnings] == ["near"]
    catalog = compile_catalog(
        SourceText("node Person { name: String @key  v: Vector(2)? }", "s.pg")
    )
    found = check_queries(registry, catalog)
    assert not found.ok
    assert [one.query for one in found.breakages] == ["mail", "older", "set_age"]
    assert "no property 'email'" in found.wire()["breakages"][0]["message"]


def test_a_schema_that_breaks_a_query_is_refused_with_its_name(graph: Graph) -> None:
    registry = registry_of(QUERIES, "query broken() { match { $x: Nobody } return { $x } }")
    wanted = SourceText(SCHEMA.replace("email: String?", ""), "s.pg")
    with pytest.raises(SchemaBreaksQueries) as caught:
        check_schema_change(registry, graph.catalog, compile_catalog(wanted))
    assert [name for name, _ in caught.value.broken] == ["mail"], "what never ran is not broken"
    assert caught.value.http_status == 409
    assert "'mail'" in caught.value.message
    assert caught.value.wire()["broken_queries"][0]["query"] == "mail"
    with pytest.raises(SchemaBreaksQueries):
        graph.apply_schema(wanted)
    assert graph.schema == SCHEMA
    more = SourceText(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"), "s.pg")
    check_schema_change(registry, graph.catalog, compile_catalog(more))


def test_a_query_that_may_not_be_run_is_as_one_that_does_not_exist(graph: Graph) -> None:
    policy = parse_bundle(SourceText(RULES, "p.yaml"))
    bot, rita = (graph.as_actor(actor, policy=policy) for actor in ("bot", "rita"))
    assert [one["name"] for one in bot.stored_queries()] == ["mail", "older", "set_age"]
    assert rita.stored_queries() == []
    answers = []
    for handle, name in ((bot, "near"), (bot, "none"), (rita, "older"), (rita, "none")):
        with pytest.raises(QueryNotFound) as caught:
            handle.invoke(name, {"nonsense": 1}, expect_mutation=True)
        answers.append(str(caught.value.wire()).replace(name, "X"))
    assert len(set(answers)) == 1
    assert len(bot.invoke("older", {"than": 30}).rows) == 1
    with pytest.raises(PolicyDenied):
        bot.invoke("set_age", {"name": "Ada", "age": 1})
    with pytest.raises(PolicyDenied) as denied:
        bot.invoke("mail")
    assert denied.value.hidden == ("Person.email",)


def test_a_pickled_handle_keeps_its_queries(graph: Graph) -> None:
    again = pickle.loads(pickle.dumps(graph))
    assert len(again.invoke("older", {"than": 30}).rows) == 1
