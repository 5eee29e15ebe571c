"""Lint of query files as JSON; the text cases show each code."""

from __future__ import annotations

from typing import Any

from omnigraph.language.source import SourceText
from omnigraph.plan.query_lint import LintReport, lint_queries
from plan.bind.bind_cases import catalog_of

SCHEMA = {"kind": "file", "path": "music.pg"}


def lint(text: str, schema: str = "music.pg") -> LintReport:
    return lint_queries(SourceText(text, "q.gq"), catalog_of(schema), SCHEMA)


def wire(report: LintReport) -> dict[str, Any]:
    return report.wire()


def findings(text: str, schema: str = "music.pg") -> list[tuple[str, str, str]]:
    found = lint(text, schema).findings
    return [(f.code, str(f.severity), f.message) for f in found]


def test_a_clean_file_is_ok():
    report = lint("query all() { match { $a: Artist } return { $a.name } }")
    assert wire(report) == {
        "status": "ok",
        "schema_source": SCHEMA,
        "query_path": "q.gq",
        "queries_processed": 1,
        "errors": 0,
        "warnings": 0,
        "infos": 0,
        "results": [
            {
                "name": "all",
                "kind": "read",
                "status": "ok",
                "operation": {
                    "result": [{"name": "a.name", "kind": "string", "nullable": False}],
                    "reads": [{"kind": "node", "type_name": "Artist"}],
                    "writes": [],
                },
            }
        ],
        "findings": [],
    }
    assert report.exit_code == 0


def test_a_file_that_does_not_parse_has_no_results():
    report = lint("query one() { match { } return { 1 } }\nquery two( { }")
    body = wire(report)
    assert body["status"] == "error"
    assert body["results"] == []
    assert body["queries_processed"] == 0
    assert body["errors"] == len(body["findings"]) > 0
    assert {f["code"] for f in body["findings"]} == {"Q000"}
    assert report.exit_code == 1


def test_a_type_error_is_reported_with_its_query():
    report = lint(
        """query good() { match { $a: Artist } return { $a } }
query bad() { match { $a: Artist $a flies $b } return { $a.nom } }"""
    )
    good, bad = wire(report)["results"]
    assert good["status"] == "ok"
    assert bad == {
        "name": "bad",
        "kind": "read",
        "status": "error",
        "error": "type error: T4: no edge type matches 'flies' at q.gq:2:37\n"
        "type error: T6: Artist has no property 'nom' at q.gq:2:60",
    }
    assert (report.status, report.exit_code) == ("error", 1)


def test_a_mutation_without_parameters_is_warned_about():
    report = lint('query seed() { insert Artist { slug: "a", name: "A" } }')
    (result,) = wire(report)["results"]
    assert result["status"] == "ok"
    assert result["warnings"] == [
        "mutation 'seed' declares no params: hardcoded mutations are easy to miss"
    ]
    assert (report.status, wire(report)["warnings"]) == ("ok", 1)


def test_properties_no_update_sets_are_listed_with_the_queries():
    report = lint(
        """
        query b($s: String) { update Artist set { bio: $s } where slug = $s }
        query a($s: String) { update Artist set { bio: $s } where name = $s }
        query c($s: String) { update Album set { rating: 1, plays: 2 } where slug = $s }
        query d($s: String) { update Nope set { bio: $s } where slug = $s }
        """
    )
    unset = [f for f in wire(report)["findings"] if f["code"] == "L201"]
    assert unset == [
        {
            "severity": "warning",
            "code": "L201",
            "message": f"{type_name}.{name} exists in schema but no update query sets it",
            "type_name": type_name,
            "property": name,
            "query_names": queries,
        }
        for type_name, name, queries in [
            ("Album", "cover", ["c"]),
            ("Album", "released", ["c"]),
            ("Artist", "born", ["a", "b"]),
            ("Artist", "genres", ["a", "b"]),
        ]
    ]


def test_conditions_and_blocks_connect():
    text = """
    query a() { match { $a: Artist $b: Album $a.name = $b.title } return { $a, $b } }
    query b() { match { $a: Artist $b: Album optional { $a made $b $b sampled $c } }
                return { $a, $b, $c } }
    query c() { match { $a: Artist $b: Album not { $a made $b } } return { $a, $b } }
    """
    assert findings(text) == []


def test_an_interface_is_checked_type_by_type():
    text = 'query q() { match { $x: Named } return { $x } order { bm25($x.name, "x") } }'
    assert findings(text, "library.pg") == [
        ("L206", "info", "Book.name is ranked by bm25() and declares no @index"),
        ("L206", "info", "Person.name is ranked by bm25() and declares no @index"),
    ]
