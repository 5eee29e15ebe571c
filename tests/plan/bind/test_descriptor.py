"""The description of a query for clients."""

from __future__ import annotations

from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.compile import describe_operation, describe_query
from plan.bind.bind_cases import catalog_of


def bound(text: str):
    source = SourceText(text, "q.gq")
    (decl,) = parse_query_file(source).queries
    return decl, bind_query(decl, catalog_of("library.pg"), source)


def result_of(columns: str) -> list[object]:
    text = f"query q() {{ match {{ $p: Person $p $w:owns $b }} return {{ {columns} }} }}"
    return describe_operation(bound(text)[1])["result"]


def test_columns_are_described_as_they_are_executed():
    columns = (
        "$p, $p.name, $p.age, $p.big, $p.small, $p.score, $p.active, $p.seen, $p.tags, $p.face,"
        ' $w.weight, $b { name }, date("2024-01-01") as d, bm25($b.name, "x") as s'
    )
    assert result_of(columns) == [
        {"name": "p", "kind": "string", "nullable": False},
        {"name": "p.name", "kind": "string", "nullable": False},
        {"name": "p.age", "kind": "int", "nullable": True},
        {"name": "p.big", "kind": "bigint", "nullable": True},
        {"name": "p.small", "kind": "int", "nullable": True},
        {"name": "p.score", "kind": "float", "nullable": True},
        {"name": "p.active", "kind": "bool", "nullable": False},
        {"name": "p.seen", "kind": "datetime", "nullable": True},
        {"name": "p.tags", "kind": "list", "item_kind": "string", "nullable": True},
        {"name": "p.face", "kind": "vector", "vector_dim": 2, "nullable": True},
        {"name": "w.weight", "kind": "float", "nullable": True},
        {"name": "b", "kind": "object", "nullable": False},
        {"name": "d", "kind": "date", "nullable": False},
        {"name": "s", "kind": "float", "nullable": True},
    ]


def test_aggregates_are_described_as_nullable():
    assert result_of("$p.mood, count($b) as n, collect($b.name) as names, max($p.age)") == [
        {"name": "p.mood", "kind": "string", "nullable": False},
        {"name": "n", "kind": "bigint", "nullable": True},
        {"name": "names", "kind": "list", "item_kind": "string", "nullable": True},
        {"name": "p.age", "kind": "int", "nullable": True},
    ]


def test_a_read_names_every_type_it_touches():
    _, plan = bound(
        "query q() { match { $c: Company not { $c employs $p $p owns $_ } } return { $c } }"
    )
    assert describe_operation(plan) == {
        "result": [{"name": "c", "kind": "string", "nullable": False}],
        "reads": [
            {"kind": "node", "type_name": "Book"},
            {"kind": "node", "type_name": "Company"},
            {"kind": "node", "type_name": "Person"},
            {"kind": "edge", "type_name": "Employs"},
            {"kind": "edge", "type_name": "Owns"},
        ],
        "writes": [],
    }


def test_a_mutation_has_effects_and_no_result():
    _, plan = bound('query q() { insert Owns { from: "a", to: "b" } }')
    assert describe_operation(plan) == {
        "result": [],
        "reads": [
            {"kind": "node", "type_name": "Book"},
            {"kind": "node", "type_name": "Person"},
            {"kind": "edge", "type_name": "Owns"},
        ],
        "writes": [{"kind": "edge", "type_name": "Owns"}],
    }


def test_a_catalog_entry_describes_parameters_of_every_kind():
    decl, plan = bound(
        """
        query find($s: String, $f: Bool?, $i: I32, $u: U64, $x: F32, $d: Date, $t: DateTime?,
                   $b: Blob, $v: Vector(2), $l: [I64]?)
            @description("Find people.") @instruction("Ask for a name.")
        { match { $p: Person { name: $s } } return { $p } }
        """
    )
    assert describe_query(decl, plan) == {
        "name": "find",
        "tool_name": "find",
        "description": "Find people.",
        "instruction": "Ask for a name.",
        "mutation": False,
        "params": [
            {"name": "s", "kind": "string", "nullable": False},
            {"name": "f", "kind": "bool", "nullable": True},
            {"name": "i", "kind": "int", "nullable": False},
            {"name": "u", "kind": "bigint", "nullable": False},
            {"name": "x", "kind": "float", "nullable": False},
            {"name": "d", "kind": "date", "nullable": False},
            {"name": "t", "kind": "datetime", "nullable": True},
            {"name": "b", "kind": "blob", "nullable": False},
            {"name": "v", "kind": "vector", "vector_dim": 2, "nullable": False},
            {"name": "l", "kind": "list", "item_kind": "bigint", "nullable": True},
        ],
        "returns": describe_operation(plan),
    }


def test_an_entry_without_notes_leaves_them_out():
    decl, plan = bound("query drop($a: I32) { delete Person where age = $a }")
    entry = describe_query(decl, plan)
    assert entry["mutation"] is True
    assert "description" not in entry
    assert "instruction" not in entry
