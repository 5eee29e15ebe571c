"""Graphs, policies and stored queries of a cluster, named on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import omnigraph as library
from omnigraph.cli.main import run as run_command
from omnigraph.cluster.applied_cluster import find_applied_graph
from omnigraph.settings import EmbedProvider, Settings
from server.cluster_files import GRAPH_RULES, NAMES, SERVER_RULES, ClusterFolder

COUNT = "query q() { match { $p: Person } return { count($p) as n } }"
ADD = "query add($name: String) { insert Person { name: $name } }\n"
PEOPLE = ("--cluster", "town", "--graph", "people")
CASES = """\
version: 1
cases:
  - { id: bots read, actor: bot, action: read, branch: main, expect: allow }
  - { id: bots run nothing, actor: bot, action: invoke-query, expect: deny }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> ClusterFolder:
    """Two graphs, rules for one of them and for the server, applied."""
    made = ClusterFolder(tmp_path_factory.mktemp("clusters") / "town")
    made.declare_graph("people", NAMES + ADD)
    made.declare_graph("places")
    made.declare_policy("rules", GRAPH_RULES, "people")
    made.declare_policy("operators", SERVER_RULES, "cluster")
    made.apply()
    made.write("../cases.yaml", CASES)
    made.write("../rows.jsonl", '{"type": "Person", "data": {"name": "Ben"}}\n')
    made.write("../q.gq", COUNT)
    return made


@pytest.fixture
def command(folder: ClusterFolder, monkeypatch, capsys, tmp_path: Path):
    """Run a command beside the folder; return code, stdout and stderr."""
    monkeypatch.chdir(folder.path.parent)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    monkeypatch.setenv("OMNIGRAPH_LOAD_ENGINE", "local")

    def run(*arguments: str, config: str | None = None) -> tuple[int, str, str]:
        if config is not None:
            (tmp_path / "config.yaml").write_text(config)
        code = run_command(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.mark.parametrize(
    "words",
    [
        ("query", "-e", COUNT),
        ("mutate", "-e", ADD, "--params", '{"name": "Ada"}'),
        ("load", "--data", "rows.jsonl", "--mode", "merge"),
        ("export",),
        ("snapshot",),
        ("explain", "-e", COUNT),
        ("lint", "--query", "q.gq"),
        ("branch", "list"),
        ("tag", "list"),
        ("commit", "list"),
        ("changes", "poll", "--start", "beginning"),
        ("schema", "show"),
        ("schema", "plan", "--schema", "town/people.pg"),
        ("diff", "1", "main"),
        ("optimize",),
        ("cleanup", "--keep", "9"),
        ("repair",),
        ("verify",),
        ("maintain",),
        ("recover",),
        ("recovery", "list"),
        ("queries", "list"),
    ],
    ids=" ".join,
)
def test_every_verb_finds_a_graph_of_a_cluster(command, words) -> None:
    code, _, err = command(*words, *PEOPLE)
    assert code == 0, err


def test_a_write_says_which_graph_in_storage_it_changes(command, folder) -> None:
    _, _, err = command("branch", "create", "side", *PEOPLE, "--as", "ben")
    assert err == f"branch create → {folder.path / 'graphs' / 'people.omni'} (direct, local)\n"


@pytest.mark.parametrize(
    "scope",
    [
        ("--cluster", "atlas", "--graph", "people"),
        ("--cluster", "{root}", "--graph", "people"),
        ("--cluster", "file://{root}", "--graph", "people"),
        ("--profile", "upkeep"),
        ("--profile", "upkeep", "--graph", "people"),
    ],
)
def test_a_cluster_is_named_by_its_folder_its_root_or_the_configuration(
    command, folder, scope
) -> None:
    config = (
        f"clusters: {{atlas: {{root: {folder.path}}}}}\n"
        "profiles: {upkeep: {cluster: atlas, default_graph: people}}\n"
    )
    given = [word.replace("{root}", str(folder.path)) for word in scope]
    code, out, err = command("queries", "list", *given, "--json", config=config)
    assert code == 0, err
    assert [one["name"] for one in json.loads(out)["queries"]] == ["add", "names"]


def test_a_graph_of_a_cluster_is_cloned(command, folder, tmp_path: Path) -> None:
    copy = tmp_path / "copy.omni"
    code, _, err = command("clone", *PEOPLE, str(copy))
    assert code == 0, err
    original = library.open(folder.path / "graphs" / "people.omni")
    assert library.open(copy).commits() == original.commits()
    for wrong in (
        ("clone", *PEOPLE, "people.omni", "other.omni"),
        ("clone", "--graph", "people", "other.omni"),
        ("clone", "people.omni"),
    ):
        assert command(*wrong)[0] == 2


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch) -> ClusterFolder:
    """A graph with an embedding profile, applied to another place than the folder."""
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    folder = ClusterFolder(tmp_path / "config", storage=str(tmp_path / "elsewhere"))
    folder.declare_graph("only")
    folder.providers = {"mocked": {"kind": "mock"}}
    folder.graphs["only"]["embedding_provider"] = "mocked"
    folder.apply()
    return folder


def test_the_storage_of_a_folder_is_followed_and_only_the_ledger_is_needed(
    elsewhere, tmp_path: Path, capsys
) -> None:
    place = ("--cluster", str(elsewhere.path))
    assert (tmp_path / "elsewhere" / "graphs" / "only.omni").is_dir()
    assert not (elsewhere.path / "graphs").exists()
    shutil.rmtree(tmp_path / "elsewhere" / "__cluster" / "resources")
    assert run_command(["verify", *place]) == 0, capsys.readouterr().err
    assert run_command(["queries", "list", *place]) == 1
    assert "catalog_payload_missing" in capsys.readouterr().err


def test_a_graph_of_a_cluster_embeds_by_its_profile(elsewhere) -> None:
    found = find_applied_graph(str(elsewhere.path), "only")
    assert found.choose_settings(Settings()).embed.provider is EmbedProvider.MOCK


def test_graphs_of_a_cluster_are_created_and_changed_by_the_cluster(command, folder) -> None:
    """Check that creating a graph is refused, and that a direct schema change is warned about."""
    schema = ("--schema", "town/people.pg")
    code, _, err = command("init", "town/graphs/new.omni", *schema)
    assert code == 1
    assert f"is in the cluster at {folder.path}" in err
    assert not (folder.path / "graphs" / "new.omni").exists()
    code, _, err = command("schema", "apply", "town/graphs/people.omni", *schema, "--dry-run")
    assert code == 0
    assert f"warning: the cluster at {folder.path} manages this graph" in err
    assert command("init", "graphs/other.omni", *schema)[0] == 0


def test_a_profile_shows_where_its_cluster_is(command, folder) -> None:
    config = f"clusters: {{atlas: {{root: {folder.path}}}}}\nprofiles: {{up: {{cluster: atlas}}}}\n"
    _, out, _ = command("profile", "show", "up", "--json", config=config)
    shown = json.loads(out)
    assert (shown["scope_kind"], shown["endpoint"]) == ("cluster", str(folder.path))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("verify", "--cluster", "town"), 2, "with --graph: people, places"),
        (("verify", "--cluster", "town", "--graph", "other"), 1, "people, places"),
        (("verify", "--cluster", "twon", "--graph", "x"), 2, "no such cluster 'twon'"),
        (("verify", "--cluster", ".", "--graph", "x"), 1, "cluster.yaml"),
        (("verify", "--cluster", "town", "--store", "g.omni"), 2, "give the graph once"),
        (("query", "-e", COUNT, "--cluster", "town", "--server", "s"), 2, "give the graph once"),
        (("verify", "--store", "g.omni", "--graph", "people"), 2, "a store is a single graph"),
        (("schema", "apply", "--cluster", "town", "--schema", "s.pg"), 2, "cluster apply"),
        (("schema", "apply", "--profile", "up", "--schema", "s.pg"), 2, "cluster apply"),
        (("query", *PEOPLE), 2, "give the query"),
        (("query", "nobody", *PEOPLE), 1, "nobody"),
    ],
)
def test_a_name_of_no_graph_of_a_cluster_is_reported(command, words, code: int, said: str) -> None:
    config = "profiles: {up: {cluster: town, default_graph: people}}"
    found, out, err = command(*words, config=config)
    assert (found, out) == (code, "")
    assert said in err


def test_stored_queries_of_a_cluster_run_by_name(command, folder) -> None:
    given = ("--params", '{"name": "Zoe"}', "--as", "maria")
    code, _, err = command("mutate", "add", *PEOPLE, *given)
    assert code == 0, err
    code, out, err = command("query", "names", *PEOPLE, "--json")
    assert code == 0, err
    assert {"p.name": "Zoe"} in json.loads(out)["rows"]
    with library.open(folder.path / "graphs" / "people.omni", read_only=True) as graph:
        assert graph.commits()[0].actor_id == "maria"


def test_stored_queries_are_checked_against_what_is_applied(command, folder) -> None:
    code, out, err = command("queries", "validate", *PEOPLE)
    assert (code, out) == (0, "OK     add\nOK     names\n"), err
    folder.write("../new.gq", "query bad() { match { $c: City } return { $c.name } }")
    code, out, _ = command("queries", "validate", *PEOPLE, "--queries", "new.gq")
    assert code == 1
    assert "City" in out
    code, _, err = command("queries", "validate", "--store", "town/graphs/people.omni")
    assert (code, "give the queries" in err) == (2, True)


def test_applied_policies_are_checked_tried_and_explained(command) -> None:
    code, out, err = command("policy", "validate", *PEOPLE)
    assert (code, out) == (0, "rules: 2 rules for 2 actors\n"), err
    code, out, err = command("policy", "test", *PEOPLE, "--tests", "cases.yaml")
    assert (code, out) == (0, "2 of 2 cases passed\n"), err
    of_server = ("--cluster", "town", "--scope", "cluster", "--json")
    code, out, err = command("policy", "validate", *of_server)
    assert (code, json.loads(out)["scope"]) == (0, "cluster"), err
    for action in ("graph-list", "graph_list"):
        asked = ("policy", "explain", *of_server, "--actor", "maria", "--action", action)
        code, out, err = command(*asked)
        assert (code, json.loads(out)["decision"]) == (0, "allow"), err


def test_the_applied_state_is_distinguished_from_the_working_tree(command, folder) -> None:
    folder.write("rules.policy.yaml", GRAPH_RULES.replace("[bot]", "[bot, eve]"))
    try:
        asked = ("--actor", "eve", "--action", "read", "--branch", "main", "--json")
        _, out, _ = command("policy", "explain", *PEOPLE, *asked)
        assert json.loads(out)["decision"] == "deny"
        _, out, _ = command("policy", "explain", "--file", "town/rules.policy.yaml", *asked)
        assert json.loads(out)["decision"] == "allow"
    finally:
        folder.write("rules.policy.yaml", GRAPH_RULES)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "give a bundle"),
        (("--file", "p.yaml", "--cluster", "town"), 2, "not both"),
        (("--cluster", "town"), 2, "with --graph: people, places"),
        (("--cluster", "town", "--scope", "cluster", "--graph", "people"), 2, "no graph"),
        (("--cluster", "town", "--graph", "places"), 1, "places"),
    ],
)
def test_a_bundle_that_is_not_named_or_missing_is_reported(command, words, code, said) -> None:
    found, out, err = command("policy", "validate", *words)
    assert (found, out) == (code, "")
    assert said in err
