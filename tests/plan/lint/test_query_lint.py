"""Lint of query files: mistakes, warnings and advice."""

from __future__ import annotations

from omnigraph.language.source import SourceText
from omnigraph.plan.codes import LINT_CODES
from omnigraph.plan.lint import LintReport, lint_queries
from plan.bind.bind_cases import catalog_of

SCHEMA = {"kind": "file", "path": "music.pg"}


def lint(text: str, schema: str = "music.pg") -> LintReport:
    return lint_queries(SourceText(text, "q.gq"), catalog_of(schema), SCHEMA)


def findings(text: str, schema: str = "music.pg") -> list[tuple[str, str, str]]:
    found = lint(text, schema).findings
    return [(f.code, str(f.severity), f.message) for f in found]


def test_a_clean_file_is_ok():
    report = lint("query all() { match { $a: Artist } return { $a.name } }")
    assert report.json() == {
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
    body = report.json()
    assert body["status"] == "error"
    assert body["results"] == []
    assert body["queries_processed"] == 0
    assert body["errors"] == len(body["findings"]) > 0
    assert {f["code"] for f in body["findings"]} == {"Q000"}
    assert report.exit_code == 1


def test_a_type_error_is_told_with_its_query():
    report = lint(
        """query good() { match { $a: Artist } return { $a } }
query bad() { match { $a: Artist $a flies $b } return { $a.nom } }"""
    )
    good, bad = report.json()["results"]
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
    (result,) = report.json()["results"]
    assert result["status"] == "ok"
    assert result["warnings"] == [
        "mutation 'seed' declares no params: hardcoded mutations are easy to miss"
    ]
    assert (report.status, report.json()["warnings"]) == ("ok", 1)


def test_properties_no_update_sets_are_listed_with_the_queries():
    report = lint(
        """
        query b($s: String) { update Artist set { bio: $s } where slug = $s }
        query a($s: String) { update Artist set { bio: $s } where name = $s }
        query c($s: String) { update Album set { rating: 1, plays: 2 } where slug = $s }
        query d($s: String) { update Nope set { bio: $s } where slug = $s }
        """
    )
    unset = [f for f in report.json()["findings"] if f["code"] == "L201"]
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


def test_a_merge_sets_properties_too():
    text = """
    query a($s: String) { update Label set { founded: null } where slug = $s }
    query b($s: String) { merge Label { slug: $s, country: "uk" } }
    """
    assert findings(text) == []


def test_unused_names_are_pointed_out():
    text = """
    query q($used: String, $idle: I32) {
      match { $a: Artist { slug: $used } $a made $b $a influences $_ not { $a signedTo $l } }
      return { $a.name }
    }
    """
    assert findings(text) == [
        ("L202", "warning", "parameter $idle is never used"),
        ("L203", "info", "variable $b is never used; `$_` needs no name"),
        ("L203", "info", "variable $l is never used; `$_` needs no name"),
    ]


def test_unconnected_parts_are_pointed_out():
    text = "query q() { match { $a: Artist $b: Album $a made $c } return { $a, $b, $c } }"
    assert findings(text) == [
        ("L204", "warning", "nothing connects $b and $a, $c: every combination is a row")
    ]


def test_conditions_and_blocks_connect():
    text = """
    query a() { match { $a: Artist $b: Album $a.name = $b.title } return { $a, $b } }
    query b() { match { $a: Artist $b: Album optional { $a made $b $b sampled $c } }
                return { $a, $b, $c } }
    query c() { match { $a: Artist $b: Album not { $a made $b } } return { $a, $b } }
    """
    assert findings(text) == []


def test_a_limit_without_an_order_is_pointed_out():
    text = """
    query a() { match { $a: Artist } return { $a } limit 3 }
    query b() { match { $a: Artist } return { $a } order { $a.name } limit 3 }
    query c() { match { $a: Artist } return { count($a) as n } limit 1 }
    query d() { match { $a: Artist } return { $a.born, count($a) as n } limit 1 }
    """
    (finding,) = lint(text).findings
    assert (finding.code, finding.query_names) == ("L205", ("a", "d"))


def test_rankings_without_an_index_are_pointed_out():
    text = """
    query near($v: Vector(3)) {
      match { $b: Album } return { $b } order { nearest($b.vibe, $v) } limit 3
    }
    query text() {
      match { $a: Artist $l: Label $a signedTo $l bm25($l.name, "x") > 1.0 }
      return { $a, bm25($a.name, "x") as s }
    }
    """
    found = lint(text).findings
    assert [(f.code, f.message, f.query_names) for f in found] == [
        ("L206", "Album.vibe is ranked by nearest() and declares no @index", ("near",)),
        ("L206", "Label.name is ranked by bm25() and declares no @index", ("text",)),
    ]


def test_an_interface_is_looked_at_type_by_type():
    text = 'query q() { match { $x: Named } return { $x } order { bm25($x.name, "x") } }'
    assert findings(text, "library.pg") == [
        ("L206", "info", "Book.name is ranked by bm25() and declares no @index"),
        ("L206", "info", "Person.name is ranked by bm25() and declares no @index"),
    ]


def test_every_code_is_listed():
    text = """
    query a($idle: I32) { match { $a: Artist $b: Album } return { $b.rating } limit 2 }
    query b() { match { $b: Album } return { $b } order { nearest($b.vibe, [1, 2, 3]) } limit 2 }
    query c() { update Label set { name: "x" } where slug = "y" }
    """
    found = {code for code, _, _ in (*findings(text), *findings("query"))}
    assert found == LINT_CODES.keys()


def test_a_report_reads_line_by_line():
    report = lint(
        """query one($p: I32) { match { $a: Artist } return { $a } limit 3 }
query two() { delete Artist where nom = "x" }"""
    )
    assert report.lines() == [
        "ok     read      one",
        "error  mutation  two",
        "       warning: mutation 'two' declares no params: hardcoded mutations are easy to miss",
        "       type error: T11: Artist has no property 'nom' at q.gq:2:35",
        "warning L202: parameter $p is never used (one)",
        "info L205: `limit` without `order` keeps rows of no particular order (one)",
        "q.gq: 2 queries, 1 errors, 2 warnings, 1 infos",
    ]
