"""The commands, run as a user runs them."""

import json
from pathlib import Path

import pytest

from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__


def test_version_prints_release_and_format(omnigraph) -> None:
    outcome = omnigraph("version")
    expected = f"omnigraph {__version__}\ninternal-schema {INTERNAL_SCHEMA_VERSION}\n"
    assert (outcome.code, outcome.out, outcome.err) == (0, expected, "")


@pytest.mark.parametrize("flag", ["-v", "--version"])
def test_the_version_flag_prints_the_first_line_only(omnigraph, flag: str) -> None:
    assert omnigraph(flag).out == f"omnigraph {__version__}\n"


def test_help_ends_with_the_commands_by_capability(omnigraph) -> None:
    outcome = omnigraph("--help")
    assert outcome.code == 0
    *_, legend = outcome.out.split("\n\n")
    assert legend.startswith("COMMANDS BY CAPABILITY\n")


@pytest.mark.parametrize("arguments", [[], ["schema"]], ids=["nothing", "a group"])
def test_no_command_gets_the_help_as_wrong_usage(omnigraph, arguments: list[str]) -> None:
    outcome = omnigraph(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Usage: omnigraph")


def test_explain_draws_the_plan(omnigraph, schema_file: Path, query_file: Path) -> None:
    outcome = omnigraph(
        "explain", "--schema", str(schema_file), "--query", str(query_file), "albums"
    )
    assert outcome.code == 0
    assert outcome.out.splitlines()[0] == "query albums($s: String)"
    assert "Scan  $a: Artist  where: $a.slug = $s" in outcome.out


def test_explain_as_json_is_one_document(omnigraph, schema_file: Path, query_file: Path) -> None:
    outcome = omnigraph(
        "explain", "albums", "--json", "--schema", str(schema_file), "--query", str(query_file)
    )
    body = json.loads(outcome.out)
    assert body["columns"] == [{"name": "b.title", "type": "String"}]


def test_a_query_can_come_from_standard_input(omnigraph, schema_file: Path) -> None:
    query = "query q() { match { $a: Artist } return { $a.name } }"
    outcome = omnigraph("explain", "--schema", str(schema_file), "--query", "-", stdin=query)
    assert outcome.code == 0


def test_a_file_with_several_queries_needs_a_name(
    omnigraph, schema_file: Path, query_file: Path
) -> None:
    outcome = omnigraph("explain", "--schema", str(schema_file), "--query", str(query_file))
    assert outcome.code == 1
    assert outcome.err == "error: the file has 2 queries; name one of: albums, born\n"


def test_an_unknown_query_names_those_there_are(
    omnigraph, schema_file: Path, query_file: Path
) -> None:
    outcome = omnigraph(
        "explain", "nope", "--schema", str(schema_file), "--query", str(query_file), "--json"
    )
    assert outcome.code == 1
    assert json.loads(outcome.out) == {
        "error": "query 'nope' not found; the file has: albums, born",
        "code": "not_found",
        "kind": "query_not_found",
        "query_not_found": {"name": "nope", "known": ["albums", "born"]},
    }
    assert outcome.err.startswith("error: query 'nope' not found")


def test_lint_reports_each_query_and_passes_with_warnings(
    omnigraph, schema_file: Path, query_file: Path
) -> None:
    outcome = omnigraph("lint", "--schema", str(schema_file), "--query", str(query_file), "--json")
    body = json.loads(outcome.out)
    assert (outcome.code, body["status"], body["queries_processed"]) == (0, "ok", 2)
    assert [r["name"] for r in body["results"]] == ["albums", "born"]
    assert body["schema_source"] == {"kind": "file", "path": str(schema_file)}


def test_lint_fails_on_a_mistake_and_still_prints_its_report(omnigraph, schema_file: Path) -> None:
    query = "query q() { match { $a: Artist  $a flies $b } return { $a.name } }"
    outcome = omnigraph("lint", "--schema", str(schema_file), "--query", "-", "--json", stdin=query)
    body = json.loads(outcome.out)
    assert (outcome.code, body["status"]) == (1, "error")
    assert "T4" in body["results"][0]["error"]


def test_lint_for_people(omnigraph, schema_file: Path, query_file: Path) -> None:
    outcome = omnigraph("lint", "--schema", str(schema_file), "--query", str(query_file))
    assert outcome.code == 0
    assert any("albums" in line for line in outcome.out.splitlines())


def test_schema_plan_lists_the_steps(omnigraph, schema_file: Path, tmp_path: Path) -> None:
    wanted = tmp_path / "next.pg"
    wanted.write_text(schema_file.read_text().replace("born: I32?", "born: I32?  nick: String?"))
    outcome = omnigraph("schema", "plan", "--from", str(schema_file), "--schema", str(wanted))
    assert outcome.code == 0
    assert outcome.out.startswith("- ")
    assert "nick" in outcome.out
    as_json = json.loads(
        omnigraph(
            "schema", "plan", "--from", str(schema_file), "--schema", str(wanted), "--json"
        ).out
    )
    assert (as_json["supported"], as_json["step_count"]) == (True, 1)
    assert as_json["steps"][0]["kind"] == "add_property"


def test_schema_plan_of_no_change(omnigraph, schema_file: Path) -> None:
    outcome = omnigraph("schema", "plan", "--from", str(schema_file), "--schema", str(schema_file))
    assert outcome.out == "no schema changes\n"


def test_the_losses_of_a_plan_are_reported_beside_its_steps(
    omnigraph, schema_file: Path, tmp_path: Path
) -> None:
    wanted = tmp_path / "next.pg"
    wanted.write_text(schema_file.read_text().replace("born: I32?", ""))
    plan = ["schema", "plan", "--from", str(schema_file), "--schema", str(wanted)]
    outcome = omnigraph(*plan)
    assert outcome.out == "- drop property Artist.born (soft)\n"
    assert outcome.err.startswith("info OG-DS-104: drop property Artist.born (soft)")
    outcome = omnigraph(*plan, "--allow-data-loss", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    (reported,) = json.loads(outcome.out)["notes"]
    assert (reported["severity"], reported["code"]) == ("info", "OG-DS-104")


def test_schema_lint_gives_advice_and_passes(omnigraph, tmp_path: Path) -> None:
    path = tmp_path / "docs.pg"
    path.write_text("node Doc { slug: String @key  place: Vector(3)?  age: I32? @indx }\n")
    outcome = omnigraph("schema", "lint", "--schema", str(path))
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == f"{path}: 1 warnings, 1 infos"
    outcome = omnigraph("schema", "lint", "--schema", "-", "--json", stdin=path.read_text())
    body = json.loads(outcome.out)
    assert (body["status"], body["warnings"], body["infos"]) == ("ok", 1, 1)
    assert [(f["code"], f["line"], f["column"]) for f in body["findings"]] == [
        ("S190", 1, 60),
        ("OG-VE-101", 1, 31),
    ]


def test_init_warns_about_hints_that_mean_nothing(omnigraph, tmp_path: Path) -> None:
    outcome = omnigraph(
        "init",
        str(tmp_path / "g.omni"),
        "--schema",
        "-",
        stdin='node A @rename_from("B") { x: String @key }',
    )
    assert outcome.code == 0
    assert outcome.out.startswith("initialized ")
    assert '@rename_from("B") has no effect' in outcome.err


def test_a_plan_with_an_unsupported_change_fails_with_a_report(
    omnigraph, schema_file: Path, tmp_path: Path
) -> None:
    wanted = tmp_path / "next.pg"
    wanted.write_text(schema_file.read_text().replace("born: I32?", "born: String?"))
    outcome = omnigraph(
        "schema", "plan", "--from", str(schema_file), "--schema", str(wanted), "--json"
    )
    body = json.loads(outcome.out)
    assert (outcome.code, body["supported"]) == (1, False)
    assert body["steps"][0]["code"] == "OG-MF-106"


def test_a_schema_is_applied_with_its_steps_and_its_tables(
    omnigraph, schema_file: Path, tmp_path: Path
) -> None:
    graph, wanted = tmp_path / "music.omni", tmp_path / "next.pg"
    assert omnigraph("init", str(graph), "--schema", str(schema_file)).code == 0
    wanted.write_text(schema_file.read_text().replace("born: I32?", "born: I64?  nick: String?"))
    tried = omnigraph("schema", "apply", str(graph), "--schema", str(wanted), "--dry-run")
    assert tried.code == 0
    assert "nothing was changed: this was a dry run" in tried.out
    done = omnigraph("schema", "apply", str(graph), "--schema", str(wanted), "--as", "ada")
    assert "- change property Artist.born from I32? to I64?" in done.out
    assert "applied to main (commit " in done.out
    again = omnigraph("schema", "apply", str(graph), "--schema", str(wanted), "--json")
    body = json.loads(again.out)
    assert (body["supported"], body["applied"], body["step_count"]) == (True, False, 0)
