"""The graph and the actor a command resolves, its notice before a write, and its prompts."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph as library
from cli.terminal_process import on_a_terminal
from commands.quick_command import quick_command

SCHEMA = "node Artist { slug: String @key  name: String }"
COUNT = "query q() { match { $a: Artist } return { count($a) as n } }"
ADD = 'query add() { insert Artist { slug: "x", name: "X" } }'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    library.init(tmp_path / "g.omni", SCHEMA)
    return tmp_path / "g.omni"


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def command(tmp_path: Path):
    def run(*arguments: str, config: str | None = None, **environment: str) -> Outcome:
        if config is not None:
            (tmp_path / "config.yaml").write_text(config)
        done = subprocess.run(
            quick_command(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path), **environment},
            check=False,
            timeout=600,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "-e", COUNT, "--store", "g.omni"),
        ("query", "-e", COUNT, "--uri", "g.omni"),
        ("query", "./g.omni", "-e", COUNT),
        ("query", "q", "g.omni", "-e", COUNT),
        ("--store", "g.omni", "query", "-e", COUNT),
        ("--store=g.omni", "--quiet", "query", "q", "-e", COUNT),
        ("query", "-e", COUNT, "--profile", "here"),
        ("--profile", "here", "query", "-e", COUNT),
        ("query", "-e", COUNT),
        ("explain", "g.omni", "-e", COUNT),
        ("branch", "list", "g.omni"),
        ("branch", "create", "new", "g.omni"),
        ("commit", "list", "g.omni"),
        ("snapshot", "g.omni"),
        ("schema", "show", "g.omni"),
        ("schema", "get", "g.omni"),
        ("export", "g.omni"),
        ("recover", "g.omni"),
        ("recovery", "list", "g.omni"),
        ("mutate", "add", "g.omni", "-e", ADD),
        ("mutate", "g.omni", "-e", ADD),
    ],
    ids=" ".join,
)
def test_every_way_to_name_a_graph_works(command, place: Path, arguments) -> None:
    config = f"profiles: {{here: {{store: {place}}}}}\ndefaults: {{store: {place}}}\n"
    outcome = command(*arguments, config=config)
    assert outcome.code == 0, outcome.err


def test_a_folder_with_a_graph_is_the_graph_and_not_a_name(command, place: Path):
    place.rename(place.with_name("music"))
    assert command("query", "music", "-e", COUNT).code == 0
    assert command("mutate", "music", "-e", ADD).code == 0
    other = command("query", "q", "music", "-e", COUNT)
    assert other.code == 0, other.err
    assert command("query", "musik", "-e", COUNT).code == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("snapshot",), "no graph given"),
        (("snapshot", "g.omni", "--store", "g.omni"), "give the graph once"),
        (("snapshot", "--uri", "g.omni", "--store", "g.omni"), "give the graph once"),
        (("snapshot", "https://example.org/g"), "is a server"),
        (("explain", "g.omni", "--schema", "a.pg", "-e", COUNT), "not both"),
        (("lint", "--store", "g.omni", "--schema", "a.pg", "--query", "q.gq"), "not both"),
        (("query", "g.omni", "-e", COUNT, "--branch", "a", "--snapshot", "b"), "not both"),
        (("query", "g.omni", "-e", COUNT, "--json", "--format", "csv"), "not both"),
        (("query", "g.omni", "-e", COUNT, "--query", "x.gq"), "give the query once"),
        (("query", "g.omni", "-e", " "), "is empty"),
        (("query", "g.omni", "-e", COUNT, "--params", "{}", "--params-file", "x"), "once"),
        (("query", "g.omni", "-e", COUNT, "--as", "me"), "No such option"),
        (("version", "--store", "g.omni"), "No such option"),
        (("--store", "g.omni", "version"), "No such option"),
    ],
)
def test_contradictory_options_are_wrong_usage(command, arguments, problem: str) -> None:
    outcome = command(*arguments)
    assert outcome.code == 2, outcome
    assert outcome.out == "" or json.loads(outcome.out)["code"] == "bad_request"
    assert problem in outcome.err


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("profiles: {a: {store: x, server: y}}", "must bind exactly one"),
        ("profiles: {b: {store: x}}", "no such profile 'a'; known: b"),
        ("profiles: [", "cannot read"),
        ("defaults: {server: a, store: b}", "cannot be combined"),
        ("defaults: {store: b, default_graph: c}", "cannot be combined"),
        ("defaults: {output: xml}", "must be one of"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_named(command, config, problem: str) -> None:
    outcome = command("snapshot", "--profile", "a", config=config)
    assert outcome.code == 1
    assert problem in outcome.err


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("profiles: {a: {server: lab}}", "profile 'a' names server 'lab'"),
        ("defaults: {server: lab}", "defaults.server names server 'lab'"),
    ],
)
def test_an_address_of_no_storage_is_named_with_a_remedy(command, config: str, named: str) -> None:
    chosen = () if config.startswith("defaults") else ("--profile", "a")
    outcome = command("optimize", *chosen, config=config)
    assert (outcome.code, outcome.out) == (2, "")
    assert named in outcome.err
    assert "with --store or --uri" in outcome.err


def test_the_environment_chooses_a_profile(command, place: Path) -> None:
    config = f"profiles: {{here: {{store: {place}}}}}\nfuture: 1\n"
    outcome = command("snapshot", "--json", config=config, OMNIGRAPH_PROFILE="here")
    assert outcome.code == 0
    assert json.loads(outcome.out)["graph_branch"] == "main"
    assert "unknown key 'future' is ignored" in outcome.err
    assert command("version", OMNIGRAPH_PROFILE="nobody").code == 0


def test_the_default_format_comes_from_the_configuration(command, place: Path) -> None:
    outcome = command("query", str(place), "-e", COUNT, config="defaults: {output: csv}")
    assert outcome.out == "n\n0\n"


def test_the_actor_is_the_flag_or_the_configuration_or_none(command, place: Path) -> None:
    body = json.loads(command("mutate", str(place), "-e", ADD, "--json").out)
    assert body["actor_id"] is None
    config = "operator: {actor: act-maria}"
    change = 'query q() { update Artist set { name: "Y" } where slug = "x" }'
    command("mutate", str(place), "-e", change, config=config)
    command("mutate", str(place), "-e", change.replace("Y", "Z"), "--as", "act-ben")
    commits = json.loads(command("commit", "list", str(place), "--json").out)["commits"]
    assert [one["actor_id"] for one in commits[:3]] == ["act-ben", "act-maria", None]


@pytest.mark.parametrize(
    "arguments",
    [
        ("load", "--data", "rows.jsonl", "--mode", "merge", "--engine", "local"),
        ("embed", "--spec", "spec.json"),
        ("optimize",),
    ],
    ids=["load", "embed", "optimize"],
)
def test_every_command_that_commits_records_its_actor(command, tmp_path: Path, arguments) -> None:
    schema = "node Artist { slug: String @key  name: String  feel: Vector(2)? }"
    graph = library.init(tmp_path / "g.omni", schema)
    for slug in ("a", "b"):
        graph.load([{"type": "Artist", "data": {"slug": slug, "name": slug}}], "append")
    (tmp_path / "rows.jsonl").write_text('{"type": "Artist", "data": {"slug": "c", "name": "C"}}')
    spec = {"dimension": 2, "types": {"Artist": {"target": "feel", "fields": ["name"]}}}
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    done = command(
        *arguments, "--store", "g.omni", "--as", "act-ben", OMNIGRAPH_EMBED_PROVIDER="mock"
    )
    assert done.code == 0, done.err
    assert (len(graph.commits()), graph.commits()[0].actor_id) == (4, "act-ben")


def test_a_write_names_its_graph_unless_it_is_quiet(command, place: Path) -> None:
    outcome = command("mutate", str(place), "-e", ADD)
    assert outcome.err == f"mutate → {place} (direct, local)\n"
    assert command("branch", "create", "a", str(place), "--quiet").err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("branch", "delete", "a", "--store", "s3://nowhere/g.omni"),
        ("load", "s3://nowhere/g.omni", "--data", "x", "--mode", "overwrite"),
        ("cleanup", "s3://nowhere/g.omni", "--keep", "1", "--confirm"),
        ("repair", "s3://nowhere/g.omni", "--force", "--confirm"),
    ],
    ids=["branch delete", "load", "cleanup", "repair"],
)
def test_destruction_elsewhere_needs_consent_before_anything_is_touched(command, arguments) -> None:
    for flags in ((), ("--json",)):
        outcome = command(*arguments, *flags)
        assert outcome.code == 1
        assert "needs --yes" in outcome.err


def test_at_a_terminal_consent_is_requested(tmp_path: Path) -> None:
    command = ("branch", "delete", "a", "--store", "s3://nowhere/g.omni")
    with on_a_terminal(*command, home=tmp_path) as terminal:
        terminal.wait_for("type yes to continue:")
        terminal.type("no\n")
        terminal.wait_for("nothing was changed")
        assert terminal.end() == 1


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_colours_are_for_terminals_that_want_them(tmp_path, no_color, is_coloured) -> None:
    with on_a_terminal("snapshot", "nowhere", home=tmp_path, NO_COLOR=no_color) as terminal:
        assert terminal.end() == 1
    assert (b"\x1b[" in terminal.seen) == is_coloured


def test_old_names_of_commands_still_work_and_say_so(command, place: Path) -> None:
    outcome = command("read", str(place), "-e", COUNT, "--format", "csv")
    assert (outcome.out, outcome.err) == ("n\n0\n", "`read` is called `query`\n")
    assert command("change", str(place), "-e", ADD).code == 0
    for words in (("check",), ("query", "lint"), ("query", "check")):
        assert "is called `lint`" in command(*words, "--query", "x.gq", str(place)).err


def test_queries_are_checked_against_a_graph(command, place: Path, tmp_path: Path) -> None:
    (tmp_path / "q.gq").write_text(COUNT)
    body = json.loads(command("lint", str(place), "--query", "q.gq", "--json").out)
    assert (body["status"], body["schema_source"]) == ("ok", {"kind": "graph", "uri": str(place)})


def test_a_schema_change_is_planned_against_a_graph(command, place: Path, tmp_path: Path) -> None:
    (tmp_path / "next.pg").write_text(SCHEMA.replace("name: String", "name: String  age: I32?"))
    arguments = ("schema", "plan", str(place), "--schema", "next.pg")
    assert command(*arguments).out == "- add property Artist.age: I32?\n"
    body = json.loads(command(*arguments, "--json").out)
    assert (body["uri"], body["step_count"]) == (str(place), 1)
