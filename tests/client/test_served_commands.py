"""Commands with `--server`: which graph is meant, what is refused, and what only servers have."""

from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from behaviour.command_surfaces import in_process
from omnigraph.cli.main import run
from server.conftest import make_people
from server.serving import ADD, serving

ALL = "query all() { match { $p: Person } return { $p.name } order { $p.name } }"
STORED = f"{ALL}\n{ADD}"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with a stored query, that also lists its graphs."""
    folder = tmp_path_factory.mktemp("stored")
    (folder / "stored.gq").write_text(STORED)
    (folder / "rules.yaml").write_text(
        "version: 1\ngroups: {all: [act]}\nrules: [{id: a, allow: {actors: {group: all}, "
        "actions: [read, change, invoke_query]}}]\n"
    )
    (folder / "server.yaml").write_text(
        "version: 1\ngroups: {all: [act]}\n"
        "rules: [{id: l, allow: {actors: {group: all}, actions: [graph_list]}}]\n"
    )
    flags = ("--queries", str(folder / "stored.gq"), "--policy", str(folder / "rules.yaml"))
    flags += ("--server-policy", str(folder / "server.yaml"))
    tokens = json.dumps({"act": "letmein"})
    people = make_people(folder / "people.omni")
    with serving(people, flags=flags, OMNIGRAPH_SERVER_BEARER_TOKENS_JSON=tokens) as server:
        yield f"http://{server.address}"


@pytest.fixture
def command(served: str, tmp_path: Path):
    """Run a command of an operator who declared the server as `lab` and has logged in."""
    config = {
        "servers": {"lab": {"url": served}},
        "profiles": {"people": {"server": "lab", "default_graph": "people"}},
        "aliases": {"everybody": {"server": "lab", "graph": "people", "query": "all"}},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    (tmp_path / "credentials").write_text("[lab]\ntoken = letmein\n")
    (tmp_path / "credentials").chmod(0o600)

    def run_it(*arguments: str, **environment: str):
        with in_process("", {"OMNIGRAPH_HOME": str(tmp_path), **environment}) as output:
            code = run(arguments)
            return code, output.getvalue().decode(), sys.stderr.getvalue()

    return run_it


NAMES = ["Ada", "Ben"]


@pytest.mark.parametrize(
    "place",
    [
        ("--server", "lab", "--graph", "people"),
        ("--server", "URL", "--graph", "people"),
        ("--server", "URL/graphs/people"),
        ("--profile", "people"),
    ],
)
def test_a_graph_of_a_server_is_named_in_several_ways(command, served: str, place) -> None:
    given = [one.replace("URL", served) for one in place]
    code, out, err = command("query", "-e", ALL, "--json", *given)
    assert (code, err) == (0, "")
    assert [row["p.name"] for row in json.loads(out)["rows"]][:2] == NAMES


def test_the_environment_and_the_defaults_may_name_it_too(command, tmp_path: Path) -> None:
    assert command("commit", "list", OMNIGRAPH_PROFILE="people")[0] == 0
    config = json.loads((tmp_path / "config.yaml").read_text())
    config["defaults"] = {"server": "lab", "default_graph": "people"}
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    assert command("branch", "list")[:2] == (0, "main\n")
    assert command("optimize")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("snapshot", "--server", "lab"), 2, "choose a graph of {url} with --graph: people"),
        (("snapshot", "--server", "nobody", "--graph", "people"), 2, "no such server 'nobody'"),
        (("snapshot", "--server", "lab", "--store", "g.omni"), 2, "give the graph once"),
        (("snapshot", "--store", "g.omni", "--graph", "people"), 2, "a store is a single graph"),
        (("snapshot", "{url}/graphs/people"), 2, "name it with --server"),
        (("snapshot", "--server", "lab", "--graph", "other"), 1, "no graph"),
        (("mutate", "--profile", "people", "-e", "x", "--as", "me"), 2, "actor from the token"),
        (("query", "--profile", "people"), 2, "the name of a stored one"),
        (("query", "add", "--profile", "people"), 1, "run it with `mutate`"),
        (("query", "nothing", "--profile", "people"), 1, "query 'nothing' not found"),
        (("branch", "delete", "x", "--profile", "people", "--json"), 1, "needs --yes"),
        (("queries", "validate", "--server", "lab"), 2, "No such option"),
        (
            ("queries", "list", "--profile", "people", "--queries", "x.gq"),
            2,
            "a server has stored queries of its own",
        ),
        (("snapshot", "--profile", "people", "--timeout", "0"), 2, "--timeout"),
        (("snapshot", "--store", "g.omni", "--timeout", "3"), 2, "for a graph of a server"),
        (
            ("explain", "-e", ALL, "--profile", "people", "--analyze", "--json"),
            1,
            "'profile' is not available on a served graph",
        ),
        (("optimize", "--profile", "people"), 2, "needs the storage of the graph"),
        (
            ("query", "--profile", "people", "-e", ALL, "--engine", "spark"),
            1,
            "'engine' of a verb is not available",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_impossible_options_are_refused(command, served: str, arguments, code: int, problem):
    given = [one.replace("{url}", served) for one in arguments]
    done, out, err = command(*given)
    assert done == code, err
    assert problem.replace("{url}", served) in err
    assert "letmein" not in out + err


def test_a_stored_query_is_run_by_name(command) -> None:
    code, out, _ = command("query", "all", "--profile", "people", "--json")
    document = json.loads(out)
    assert (code, document["query_name"]) == (0, "all")
    assert document["target"] == {"branch": "main", "snapshot": None}
    assert command("alias", "everybody", "--json")[1] == out
    past = command("query", "all", "--profile", "people", "--at", "2", "--json")
    assert [row["p.name"] for row in json.loads(past[1])["rows"]] == NAMES


def test_a_stored_mutation_is_run_by_name_for_the_actor_of_the_token(command) -> None:
    code, out, err = command(
        *("mutate", "add", "--profile", "people", "--params", '{"name": "Cy"}', "--json")
    )
    assert (code, json.loads(out)["actor_id"]) == (0, "act")
    assert err.startswith("mutate → http://")
    assert err.rstrip().endswith("(served)")


def test_the_graphs_of_a_server_are_listed(command, served: str) -> None:
    expected = {"graphs": [{"graph_id": "people", "uri": f"{served}/graphs/people"}]}
    code, out, _ = command("graphs", "list", "--server", "lab", "--json")
    assert (code, json.loads(out)) == (0, {**expected, "quarantined": []})
    human = command("graphs", "list", "--profile", "people")
    assert human[:2] == (0, f"people\t{served}/graphs/people\n")


def test_plans_and_queries_of_a_server_are_shown(command) -> None:
    code, out, _ = command("explain", "-e", ALL, "--profile", "people", "--analyze")
    assert (code, "Scan" in out, "rows" in out) == (0, True, True)
    code, out, _ = command("queries", "list", "--profile", "people")
    assert (code, out) == (0, "mutation  add($name: string)\nread      all()\n")


@pytest.mark.parametrize(
    "words",
    [
        ("snapshot", "--server", "URL/graphs/people"),
        ("graphs", "list", "--server", "URL"),
        ("alias", "slow"),
    ],
    ids=" ".join,
)
def test_a_silent_server_is_waited_for_until_the_configured_timeout(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        alias = {"server": "lab", "graph": "people", "query": "all"}
        config = {"servers": {"lab": {"url": url}}, "aliases": {"slow": alias}}
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        given = [one.replace("URL", url) for one in words]
        with in_process("", {"OMNIGRAPH_HOME": str(tmp_path)}):
            assert run([*given, "--timeout", "0.2"]) == 1
            assert "no answer in time" in sys.stderr.getvalue()
