"""The contract with scripts, for every command: one JSON document, exit codes, no effects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import omnigraph as library
from cli.child_process import run_command as run
from omnigraph.cli.main import omnigraph as root
from omnigraph.cli.main import run as run_command

SCHEMA = "node Artist { slug: String @key  name: String  photo: Blob? }"
COUNT = "query q() { match { $a: Artist } return { count($a) as n } }"
ADD = 'query q() { insert Artist { slug: "x", name: "X" } }'


def every_command(group: click.Group = root, path: tuple[str, ...] = ()) -> Iterator:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(every_command())
WITH_JSON = [
    path
    for path, command in COMMANDS.items()
    if any("--json" in parameter.opts for parameter in command.params)
]
ON_GRAPHS = [
    path
    for path, command in COMMANDS.items()
    if path != ("serve",) and any("--store" in parameter.opts for parameter in command.params)
]
"""Commands on one graph; a server has several, and no default."""
ON_GRAPHS_THERE_ARE = [path for path in ON_GRAPHS if path != ("init",)]
THERE = [path for path in ON_GRAPHS_THERE_ARE if path != ("import",)]
"""Commands that do not make the graph."""
SERVED = [
    *((verb,) for verb in ("query", "mutate", "load", "ingest", "snapshot", "export")),
    *((verb,) for verb in ("revert", "cherry-pick", "restore", "diff", "lint", "explain")),
    *(("branch", verb) for verb in ("create", "list", "merge", "rename", "delete")),
    *(("tag", verb) for verb in ("create", "list", "delete")),
    *(("consumer", verb) for verb in ("set", "list", "delete")),
    ("entity", "history"),
    *(("commit", verb) for verb in ("list", "show", "changes")),
    *(("changes", verb) for verb in ("poll", "baseline")),
    *(("blob", verb) for verb in ("get", "stat")),
    *(("schema", verb) for verb in ("show", "get", "plan", "apply")),
    ("queries", "list"),
    ("graphs", "list"),
]
"""Commands that a server can carry out."""
POLICIES = [("policy", verb) for verb in ("validate", "test", "explain")]
OF_CLUSTERS = [
    *(path for path in ON_GRAPHS_THERE_ARE if path != ("schema", "apply")),
    *POLICIES,
    ("clone",),
]
"""Commands on what was applied to a cluster; its schemas are changed in its files."""


def dummies(command: click.Command) -> list[str]:
    """Values for everything the command insists on."""
    given: list[str] = []
    for parameter in command.params:
        if not parameter.required:
            continue
        kind = parameter.type
        value = str(kind.choices[0]) if isinstance(kind, click.Choice) else "nothing"
        is_option = isinstance(parameter, click.Option)
        given += [parameter.opts[0], value] if is_option else [value]
    return given


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch, capsys):
    """Run a command in this process, for checks that are made with every command there is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OMNIGRAPH_LOAD_ENGINE", "local")

    def ran(*arguments: str) -> tuple[int, str, str]:
        code = run_command(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return ran


@pytest.mark.parametrize("path", WITH_JSON, ids=" ".join)
def test_wrong_usage_is_one_json_document(path, run_here) -> None:
    code, out, err = run_here(*path, "--json", "--no-such-flag")
    body = json.loads(out)
    assert (code, body["code"]) == (2, "bad_request")
    assert f"error: {body['error']}\n" in err


@pytest.mark.parametrize("path", [p for p in THERE if p in WITH_JSON], ids=" ".join)
def test_a_graph_that_is_not_there_is_one_json_document(path, run_here, tmp_path: Path) -> None:
    command = COMMANDS[path]
    extra = ["-e", COUNT] if any("-e" in p.opts for p in command.params) else []
    extra += ["--keep", "1"] if path == ("cleanup",) else []
    extra += ["--out", "rows.jsonl"] if path == ("export",) else []
    extra += ["--queries", "nothing"] if path[0] == "queries" else []
    (tmp_path / "nothing").write_text(COUNT)
    store = ["--store", str(tmp_path / "nowhere.omni")]
    code, out, _ = run_here(*path, *dummies(command), *extra, *store, "--json")
    assert (code, json.loads(out)["kind"]) == (1, "graph_not_found"), out
    assert not (tmp_path / "nowhere.omni").exists()


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("contract") / "g.omni"
    graph = library.init(path, SCHEMA, actor="maria")
    graph.load(
        [{"type": "Artist", "data": {"slug": "a", "name": "A", "photo": "base64:AA=="}}], "append"
    )
    (path.parent / "q.gq").write_text(COUNT)
    (path.parent / "s.pg").write_text(SCHEMA)
    (path.parent / "in.jsonl").write_text(
        '{"type": "Artist", "data": {"slug": "b", "name": "B"}}\n'
    )
    return path


SUCCESSES = [
    ("query", "-e", COUNT),
    ("mutate", "-e", ADD),
    ("load", "--data", "in.jsonl", "--mode", "merge"),
    ("snapshot",),
    ("blob", "stat", "node", "Artist", "a", "photo"),
    ("branch", "create", "one"),
    ("branch", "list"),
    ("branch", "delete", "one"),
    ("commit", "list"),
    ("commit", "show", "{head}"),
    ("schema", "show"),
    ("schema", "plan", "--schema", "s.pg"),
    ("lint", "--query", "q.gq"),
    ("explain", "-e", COUNT),
    ("explain", "-e", COUNT, "--analyze"),
    ("export", "--out", "rows.jsonl"),
    ("export", "--format", "parquet", "--out", "rows"),
    ("optimize",),
    ("cleanup", "--keep", "100"),
    ("repair",),
    ("verify",),
    ("maintain",),
    ("recover",),
    ("recovery", "pending"),
    ("recovery", "list"),
]


def test_success_is_one_json_document_and_nothing_else_on_stdout(
    place: Path, run_here, monkeypatch
) -> None:
    monkeypatch.chdir(place.parent)
    head = library.open(place).commits()[0].commit_id
    for arguments in SUCCESSES:
        given = [head if word == "{head}" else word for word in arguments]
        code, out, err = run_here(*given, "--store", str(place), "--json")
        assert code == 0, (arguments, err)
        assert out == json.dumps(json.loads(out), indent=2, ensure_ascii=False) + "\n", arguments


def test_every_command_on_graphs_takes_its_address_in_three_ways() -> None:
    for path in ON_GRAPHS:
        names = {name for parameter in COMMANDS[path].params for name in parameter.opts}
        assert {"graph_uri", "--uri", "--store"} <= names, path


def test_any_command_accepts_not_to_prompt_and_to_be_quiet(place: Path, run_here) -> None:
    for path, command in COMMANDS.items():
        names = {name for parameter in command.params for name in parameter.opts}
        assert {"--yes", "--quiet"} <= names, path
    for arguments in (("version",), ("branch", "list", "--store", str(place))):
        plain = run_here(*arguments)
        assert run_here(*arguments, "--yes", "--quiet") == plain
        assert run_here("--yes", "--quiet", *arguments) == plain


def test_records_that_are_printed_leave_no_room_for_a_document(place: Path) -> None:
    done = run("export", str(place), "--json", cwd=place.parent)
    assert (done.returncode, json.loads(done.stdout)["code"]) == (2, "bad_request")
    assert "--json requires --out PATH" in done.stderr


def test_an_export_to_a_file_says_what_it_wrote(place: Path, tmp_path: Path) -> None:
    done = run("export", str(place), "--out", "rows.jsonl", "--json", cwd=tmp_path)
    written = (tmp_path / "rows.jsonl").read_bytes()
    assert json.loads(done.stdout) == {
        "out": "rows.jsonl",
        "format": "jsonl",
        "rows": written.count(b"\n"),
        "bytes": len(written),
    }


def test_exit_codes(place: Path) -> None:
    store = ("--store", str(place))
    assert run("branch", "list", *store, cwd=place.parent).returncode == 0
    assert run("commit", "show", "nothing", *store, cwd=place.parent).returncode == 1
    assert run("commit", "shw", *store, cwd=place.parent).returncode == 2
    stale = library.open(place).commits()[-1].commit_id
    lost = ("mutate", *store, "-e", ADD.replace('"x"', '"y"'), "--if-commit", stale)
    done = run(*lost, "--json", cwd=place.parent)
    assert (done.returncode, json.loads(done.stdout)["precondition_failure"]["expected"]) == (
        4,
        stale,
    )
    done = run(*lost, cwd=place.parent)
    assert (done.returncode, done.stdout) == (4, "")
    assert stale in done.stderr


WRONG_FLAGS = [
    *((path, "--server", "x") for path in COMMANDS if path not in SERVED),
    *((path, "--store", "x") for path in COMMANDS if path not in (*ON_GRAPHS, ("serve",))),
    *(
        (path, "--profile", "x")
        for path in COMMANDS
        if path not in (*ON_GRAPHS_THERE_ARE, *SERVED, *POLICIES)
    ),
    *((path, "--cluster", "x") for path in COMMANDS if path not in (*OF_CLUSTERS, ("serve",))),
    *(
        (path, "--graph", "x")
        for path in COMMANDS
        if path not in (*SERVED, *OF_CLUSTERS) or path[0] == "graphs"
    ),
    *(
        (path, "--as", "x")
        for path, command in COMMANDS.items()
        if not any("--as" in parameter.opts for parameter in command.params)
    ),
]


def test_a_flag_a_command_does_not_take_is_refused(run_here, tmp_path: Path) -> None:
    for path, *flag in WRONG_FLAGS:
        code, _, err = run_here(*path, *dummies(COMMANDS[path]), *flag)
        assert code == 2, (path, flag)
        assert "No such option" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("optimize --server lab", "needs the storage of the graph"),
        ("schema apply --schema x --cluster prod", "with `omnigraph cluster apply`"),
        ("load --data x --mode append --cluster prod", "no such cluster 'prod'"),
        ("lint --query q.gq --graph g", "no graph given"),
        ("branch list --as me", "it only reads"),
        ("init --profile p --schema s.pg", "with --store or with --uri"),
        ("config path --store g.omni", "needs no graph"),
    ],
)
def test_the_real_command_refuses_a_flag_before_it_touches_anything(
    words: str, remedy: str, tmp_path: Path
) -> None:
    done = run(*words.split(), "--json", cwd=tmp_path)
    body = json.loads(done.stdout)
    assert (done.returncode, body["code"]) == (2, "bad_request")
    assert remedy in body["error"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"type": "Artist", "type": "Artist", "data": {}}', "type"),
        ('{"type": "Artist", "data": {"slug": "c", "slug": "d", "name": "C"}}', "slug"),
        ('{"type": "Artist", "data": {"slug": "c", "name": "C", "_rowid": 1}}', "_rowid"),
        ('{"type": "Artist", "extra": 1, "data": {"slug": "c", "name": "C"}}', "extra"),
    ],
    ids=["same key twice", "same property twice", "a name of the storage", "an unknown key"],
)
def test_a_bad_line_is_named_and_the_branch_does_not_move(place: Path, line: str, problem) -> None:
    before = library.open(place).commits()
    good = '{"type": "Artist", "data": {"slug": "z", "name": "Z"}}'
    done = run(
        *("load", "--data", "-", "--mode", "append", "--store", str(place), "--json"),
        cwd=place.parent,
        stdin=f"{good}\n\n{line}\n",
    )
    body = json.loads(done.stdout)
    assert done.returncode == 1
    assert [row["line"] for row in body["rows_rejected"]["rows"]] == [3]
    assert problem in json.dumps(body)
    assert library.open(place).commits() == before


def test_help_of_every_command_says_what_each_flag_does() -> None:
    for path, command in COMMANDS.items():
        assert command.help, path
        for parameter in command.params:
            if isinstance(parameter, click.Option) and not parameter.hidden:
                assert parameter.help, (path, parameter.opts)


def test_the_capabilities_in_the_help_name_every_command_and_no_other() -> None:
    from omnigraph.cli.main import ENTRIES, LEGEND

    words = {word.strip(",") for word in LEGEND.split(":", 1)[1].replace("\n", " ").split()}
    shown = {name for name, entry in ENTRIES.items() if not entry.hidden}
    assert shown <= words, shown - words
