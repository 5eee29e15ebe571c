"""The operator's own files: configuration, credentials, and completion of words."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph as library
from cli.terminal_process import on_a_terminal, program_on_a_terminal
from commands.quick_command import quick_command
from omnigraph.client.operator_config import (
    choose_token,
    find_server,
    read_token,
    remove_token,
    store_token,
)
from omnigraph.errors import BadRequest


@pytest.fixture
def command(tmp_path: Path):
    def run(*arguments: str, stdin: str = "", **environment: str):
        return subprocess.run(
            quick_command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "OMNIGRAPH_HOME": str(tmp_path / "home"), **environment},
            check=False,
            timeout=600,
        )

    return run


def test_a_token_is_stored_for_its_server_alone(command, tmp_path: Path) -> None:
    path = tmp_path / "home" / "credentials"
    done = command("login", "lab", "--json", stdin=" secret \n")
    body = {"server": "lab", "credentials_path": str(path), "declared": False}
    assert (done.returncode, json.loads(done.stdout)) == (0, body)
    assert "no server 'lab' is declared" in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (read_token(path, "lab"), read_token(path, "other")) == ("secret", None)
    assert "secret" not in done.stdout + done.stderr


def test_a_new_token_leaves_every_other_line_as_it_is(command, tmp_path: Path) -> None:
    path = tmp_path / "home" / "credentials"
    path.parent.mkdir()
    rest = '# mine\n[other]\ntoken = "a b"\n# end\n'
    path.write_text(f"[lab]\ntoken = old\n{rest}")
    path.chmod(0o600)
    assert command("login", "lab", "--token", "new").returncode == 0
    assert path.read_text() == f"{rest}[lab]\ntoken = new\n"
    assert read_token(path, "other") == "a b"
    assert command("logout", "lab").returncode == 0
    assert command("logout", "lab", "--json").returncode == 0
    assert path.read_text() == rest


def test_a_file_others_can_read_is_refused(command, tmp_path: Path) -> None:
    path = tmp_path / "home" / "credentials"
    path.parent.mkdir()
    path.write_text("[lab]\ntoken = old\n")
    path.chmod(0o644)
    done = command("login", "lab", "--token", "new")
    assert done.returncode == 1
    assert f"chmod 600 {path}" in done.stderr
    assert path.read_text() == "[lab]\ntoken = old\n"


@pytest.mark.parametrize("token", ["", "   ", "\n"])
def test_a_blank_token_is_refused(command, tmp_path: Path, token: str) -> None:
    assert command("login", "lab", stdin=token).returncode == 1
    assert not (tmp_path / "home" / "credentials").exists()


def test_blank_and_odd_sections_mean_no_token(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text("token = stray\n[a]\ntoken =  \n[b]\n# token = no\nother = x\n")
    path.chmod(0o600)
    assert [read_token(path, name) for name in ("a", "b", "c")] == [None, None, None]
    for name in ("", "a]", "a b", "é"):
        with pytest.raises(BadRequest, match="cannot be the name"):
            store_token(path, name, "x")
        with pytest.raises(BadRequest, match="cannot be the name"):
            remove_token(path, name)
    with pytest.raises(BadRequest, match="one line"):
        store_token(path, "a", "x\ny")


def test_the_configuration_is_shown_as_it_was_understood(command, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert command("config", "path").stdout == f"{home / 'config.yaml'}\n"
    assert json.loads(command("config", "show", "--json").stdout)["output"] == "table"
    home.mkdir()
    (home / "config.yaml").write_text(
        "operator: {actor: act-maria}\nservers: {lab: {url: https://graph.example.org}}\n"
        "profiles: {a: {server: lab}, b: {store: x, server: lab}}\ndefaults: {output: kv}\n"
    )
    body = json.loads(command("config", "show", "--json", OMNIGRAPH_PROFILE="a").stdout)
    assert (body["actor"], body["output"], body["active_profile"]) == ("act-maria", "kv", "a")
    assert body["profiles"] == ["a", "b"]
    shown = command("config", "show").stdout
    assert "servers: lab (https://graph.example.org)\n" in shown


def test_profiles_are_listed_with_what_is_wrong_with_them(command, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text(
        "servers: {lab: {url: https://graph.example.org}}\n"
        "profiles: {a: {server: lab, default_graph: g}, b: {store: x, server: lab}}\n"
    )
    found = json.loads(command("profile", "list", "--json", OMNIGRAPH_PROFILE="a").stdout)
    assert [(one["name"], one["valid"], one["active"]) for one in found] == [
        ("a", True, True),
        ("b", False, False),
    ]
    body = json.loads(command("profile", "show", "a", "--json").stdout)
    assert body == {
        "name": "a",
        "scope_kind": "server",
        "target": "lab",
        "endpoint": "https://graph.example.org",
        "default_graph": "g",
        "output_format": "table",
    }
    assert json.loads(command("profile", "show", "--json").stdout)["name"] == "(defaults)"
    assert command("profile", "show", "b").returncode == 1


SERVERS = {"a": "http://h:8080", "deep": "http://h:8080/one/", "b-2": "https://other.example.org"}


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://h:8080", "a"),
        ("http://h:8080/", "a"),
        ("http://h:8080/graphs/x", "a"),
        ("http://h:8080/one", "deep"),
        ("http://h:8080/one/graphs/x", "deep"),
        ("http://h:8080/one-more", "a"),
        ("http://h:8080-evil/x", None),
        ("http://h:80801/x", None),
        ("http://h:8080@evil.example.org/", None),
        ("https://h:8080/x", None),
        ("https://other.example.org/graphs", "b-2"),
    ],
)
def test_an_address_belongs_to_the_server_that_is_most_of_it(url: str, server) -> None:
    assert find_server(url, SERVERS) == server


def test_a_stored_token_is_sent_to_its_own_server_alone(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    store_token(path, "a", "s3cret")

    def chosen(url: str, **environment: str) -> tuple[str, str] | None:
        found = choose_token(url, SERVERS, environment, path)
        return (found.text, found.source) if found else None

    assert chosen("http://h:8080/x") == ("s3cret", str(path))
    assert chosen("http://h:8080-evil/x") is None
    assert chosen("http://h:8080/one/x") is None
    assert chosen("http://h:8080/x", OMNIGRAPH_TOKEN_A=" mine ") == ("mine", "OMNIGRAPH_TOKEN_A")
    assert chosen("http://h:8080/x", OMNIGRAPH_TOKEN_A=" ") == ("s3cret", str(path))
    common = {"OMNIGRAPH_BEARER_TOKEN": "any", "OMNIGRAPH_TOKEN_B_2": "two"}
    assert chosen("http://h:8080/x", **common) == ("s3cret", str(path))
    assert chosen("http://h:8080-evil/x", **common) == ("any", "OMNIGRAPH_BEARER_TOKEN")
    assert chosen("https://other.example.org", **common) == ("two", "OMNIGRAPH_TOKEN_B_2")
    assert "s3cret" not in repr(choose_token("http://h:8080", SERVERS, {}, path))


def test_the_source_of_a_token_is_reported_without_it(command, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text("servers: {lab: {url: https://lab.example.org}}")
    done = command(
        "config", "token", "https://lab.example.org/x", "--json", OMNIGRAPH_TOKEN_LAB="secret"
    )
    body = {"url": "https://lab.example.org/x", "server": "lab", "source": "OMNIGRAPH_TOKEN_LAB"}
    assert json.loads(done.stdout) == body
    done = command("config", "token", "https://lab.example.orgs")
    assert done.stdout == "https://lab.example.orgs: no declared server, no token\n"


def test_a_token_typed_at_a_terminal_is_not_shown(tmp_path: Path) -> None:
    with on_a_terminal("login", "lab", home=tmp_path) as terminal:
        terminal.wait_for("token for lab: ")
        terminal.type("hidden-token\n")
        terminal.wait_for("stored a token for lab")
        assert terminal.end() == 0
    assert b"hidden-token" not in terminal.seen
    assert read_token(tmp_path / "credentials", "lab") == "hidden-token"


# How each shell registers a completion function for a command, and what it must return.
REGISTERED = {
    "bash": (
        "complete -o nosort -F _omnigraph_completion omnigraph",
        'COMP_WORDS="${COMP_WORDS[*]}"',
    ),
    "zsh": ("compdef _omnigraph_completion omnigraph", 'COMP_WORDS="${words[*]}"'),
    "fish": (
        'complete --no-files --command omnigraph --arguments "(_omnigraph_completion)"',
        "COMP_WORDS=(commandline -cp)",
    ),
}


@pytest.mark.parametrize("shell", REGISTERED)
def test_shells_get_code_to_complete_with(command, shell: str) -> None:
    done = command("completion", shell)
    assert done.returncode == 0, done.stderr
    assert f"_OMNIGRAPH_COMPLETE={shell}_complete" in done.stdout
    for part in REGISTERED[shell]:
        assert part in done.stdout
    assert done.stdout.count("{") == done.stdout.count("}")


def test_zsh_finds_the_code_in_a_folder_of_functions_too(command) -> None:
    code = command("completion", "zsh").stdout
    assert code.startswith("#compdef omnigraph\n"), "a file is only looked at if it starts so"
    assert "loadautofunc" in code


def test_fish_keeps_the_commas_of_a_description(command) -> None:
    assert 'string split --max 1 ","' in command("completion", "fish").stdout


@pytest.mark.parametrize(
    ("words", "zsh", "fish"),
    [
        (
            ["omnigraph", "bra"],
            "plain\nbranch\nCreate, merge, rename and delete branches.\n",
            "plain,branch\tCreate, merge, rename and delete branches.\n",
        ),
        (["omnigraph", "snapshot", "gra"], "dir\ngra\n_\n", "dir,gra\n"),
        (["omnigraph", "lint", "--schema", "no"], "file\nno\n_\n", "file,no\n"),
        (["omnigraph", "completion", "z"], "plain\nzsh\n_\n", "plain,zsh\n"),
    ],
)
def test_zsh_and_fish_are_answered_in_their_own_way(
    command, words: list[str], zsh: str, fish: str
) -> None:
    line = " ".join(words)
    asked = {"zsh": str(len(words) - 1), "fish": words[-1]}
    for shell, expected in (("zsh", zsh), ("fish", fish)):
        done = command(
            _OMNIGRAPH_COMPLETE=f"{shell}_complete", COMP_WORDS=line, COMP_CWORD=asked[shell]
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("omnigraph bra", "branch"),
        ("omnigraph branch cr", "create"),
        ("omnigraph query --form", "--format"),
    ],
)
def test_words_are_completed(command, words: str, expected: str) -> None:
    done = command(
        _OMNIGRAPH_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert (done.returncode, done.stdout) == (0, f"plain,{expected}\n")


@pytest.fixture
def music(tmp_path: Path):
    graph = library.init(
        tmp_path / "music.omni",
        "node Artist { slug: String @key }\nedge Made: Artist -> Artist",
        actor="maria",
    )
    graph.load([{"type": "Artist", "data": {"slug": "ada"}}], "append")
    graph.create_branch("review")
    graph.tag("v1")
    return graph


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("query {graph} --branch ", ["main", "review"]),
        ("query {graph} --at v", ["v1"]),
        ("load {graph} --data x --from re", ["review"]),
        ("load {graph} --type ", ["Artist", "Made"]),
        ("branch merge --store {graph} ", ["main", "review"]),
        ("branch delete --store {graph} ma", ["main"]),
        ("tag delete --store {graph} ", ["v1"]),
        ("entity history --store {graph} M", ["Made"]),
        ("commit show --store {graph} 0", ["{head}", "{first}"]),
        ("mutate {graph} --if-commit ", ["{head}", "{first}"]),
        ("query nowhere.omni --branch ", []),
        ("clone {graph} other --branch ", []),
        ("query --branch ", ["main", "review"]),
    ],
)
def test_branches_tags_commits_and_types_are_completed(
    command, music, tmp_path: Path, words: str, expected: list[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    default = "" if "nowhere" in words else f"defaults: {{store: {music.uri}}}\n"
    (home / "config.yaml").write_text(default)
    head, first = (one.commit_id for one in music.commits())
    line = f"omnigraph {words.format(graph=music.uri)}"
    given = line.split() + ([""] if line.endswith(" ") else [])
    done = command(
        _OMNIGRAPH_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(len(given) - 1)
    )
    found = [one.removeprefix("plain,") for one in done.stdout.splitlines() if one]
    assert found == [one.format(head=head, first=first) for one in expected], done.stderr


def test_commits_are_offered_with_their_actors(command, music) -> None:
    line = f"omnigraph commit show --store {music.uri} 0"
    done = command(_OMNIGRAPH_COMPLETE="fish_complete", COMP_WORDS=line, COMP_CWORD="0")
    assert f"plain,{music.commits()[0].commit_id}\tmaria\n" in done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_commands_profiles_files_and_folders(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("profiles: {tunes: {store: x}}\naliases: {mine: {}}\n")
    (tmp_path / "notes.pg").write_text("")
    graph = library.init(tmp_path / "graph.omni", "node Artist { slug: String @key }")
    graph.create_branch("review")
    graph.tag("v1")
    program = tmp_path / "bin" / "omnigraph"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m omnigraph.cli "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    shell = ("bash", "--norc", "--noprofile", "-i")
    with program_on_a_terminal(*shell, cwd=tmp_path, PATH=path, OMNIGRAPH_HOME=str(home)) as bash:
        bash.type('PS1="rea""dy> "; eval "$(omnigraph completion bash)"\n')
        bash.wait_for("ready> ")
        for typed, completed in [
            ("opti", "mize "),
            ("recovery pe", "nding "),
            ("snapshot --profile tu", "nes "),
            ("alias mi", "ne "),
            ("lint --schema no", "tes.pg "),
            ("snapshot gra", "ph.omni/"),
            ("query graph.omni --branch re", "view "),
            ("branch delete --store graph.omni re", "view "),
            ("diff --store graph.omni v", "1 "),
            ("export graph.omni --type Ar", "tist "),
        ]:
            bash.type(f"omnigraph {typed}\t")
            bash.wait_for(f"omnigraph {typed}{completed}")
            bash.type("\x15\n")
            bash.wait_for("ready> ")
        bash.type("exit\n")
        assert bash.end() == 0


def test_settings_are_listed_with_what_applies_now_and_no_secret(command) -> None:
    given = {
        "OMNIGRAPH_WRITER_WAIT": "2.5",
        "OPENAI_API_KEY": "hush",
        "OMNIGRAPH_WRITER_WAITS": "1",
    }
    done = command("config", "settings", "--json", **given)
    document = json.loads(done.stdout)
    rows = {row["name"]: row for row in document["settings"]}
    assert (rows["OMNIGRAPH_WRITER_WAIT"]["value"], rows["OMNIGRAPH_WRITER_WAIT"]["is_set"]) == (
        "2.5",
        True,
    )
    assert rows["OMNIGRAPH_LEASE_TERM"]["value"] == rows["OMNIGRAPH_LEASE_TERM"]["default"] == "30"
    assert rows["OMNIGRAPH_LEASE_TERM"]["type"] == "seconds"
    assert "hush" not in done.stdout + done.stderr
    problem = "no such setting OMNIGRAPH_WRITER_WAITS; did you mean OMNIGRAPH_WRITER_WAIT?"
    assert document["unknown"] == [problem]
    plain = command("config", "settings", **given)
    assert "OMNIGRAPH_WRITER_WAIT = 2.5\n" in plain.stdout
    assert "OMNIGRAPH_LEASE_TERM = 30  (default)\n" in plain.stdout
    assert plain.stderr == f"warning: {problem}\n"


def test_a_command_warns_about_a_variable_that_nothing_reads(command, tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text("node A { k: String @key }")
    done = command("init", "g.omni", "--schema", "s.pg", OMNIGRAPH_FOLD_AFTR="3")
    assert done.returncode == 0
    assert "warning: no such setting OMNIGRAPH_FOLD_AFTR; did you mean OMNIGRAPH_FOLD_AFTER?" in (
        done.stderr
    )
