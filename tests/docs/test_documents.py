"""The page about documents names what every command prints with `--json`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

import omnigraph as library
from omnigraph.cli.main import omnigraph as root
from omnigraph.cli.main import run
from omnigraph.cluster import apply_cluster

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "documents.md").read_text()
SCHEMA = 'node A { k: String @key  b: Blob?  v: Vector(2)? @embed("k") }'
READ = "query q() { match { $a: A } return { $a.k } }"
WRITE = 'query q() { insert A { k: "new" } }'
SPEC = {"dimension": 2, "types": {"A": {"target": "v", "fields": ["k"]}}}
CONFIG = """
servers: {lab: {url: "https://example.org"}}
profiles: {here: {store: g.omni}}
aliases: {keys: {store: g.omni, file: q.gq}}
"""
POLICY = """
version: 1
groups: {g: [a]}
rules: [{id: r, allow: {actors: {group: g}, actions: [read], except: [A.b]}}]
"""
CASES = "version: 1\ncases: [{id: c, actor: a, action: read, expect: allow}]\n"
LOCK = '{"version": 1, "lock_id": "L", "operation": "apply", "created_at": "now", "pid": 1}'
STORE = ("--store", "g.omni")
EMBED_FILE = ("embed", "--input", "rows.jsonl", "--output", "o.jsonl", "--spec", "spec.json")

CALLS = {
    ("query", *STORE, "-e", READ): "query",
    ("alias", "keys"): "alias",
    ("mutate", *STORE, "-e", WRITE): "mutate",
    ("load", *STORE, "--data", "rows.jsonl", "--mode", "merge"): "load",
    ("load", *STORE, "--data", "r*.jsonl", "--mode", "merge", "--partial"): "load",
    ("export", *STORE, "--out", "file"): "export",
    ("export", *STORE, "--format", "parquet", "--out", "folder"): "export",
    ("snapshot", *STORE): "snapshot",
    ("blob", "stat", "node", "A", "x", "b", *STORE): "blob stat",
    ("branch", "create", "one", *STORE): "branch create",
    ("branch", "list", *STORE): "branch list",
    ("branch", "merge", "main", *STORE, "--into", "one"): "branch merge",
    ("branch", "rename", "one", "two", *STORE): "branch rename",
    ("branch", "delete", "two", *STORE): "branch delete",
    ("tag", "create", "v1", *STORE): "tag create",
    ("tag", "list", *STORE): "tag list",
    ("tag", "delete", "v1", *STORE): "tag delete",
    ("commit", "changes", "{head}", *STORE): "commit changes",
    ("revert", "{head}", *STORE, "--dry-run"): "revert",
    ("cherry-pick", "{head}", *STORE): "cherry-pick",
    ("restore", "1", *STORE, "--dry-run"): "restore",
    ("diff", "1", "main", *STORE): "diff",
    ("diff", "1", "main", "--stat", *STORE): "diff",
    ("changes", "poll", "--start", "beginning", *STORE): "changes poll",
    ("changes", "baseline", "--out", "b.jsonl", *STORE): "changes baseline",
    ("consumer", "set", "c", *STORE): "consumer set",
    ("consumer", "list", *STORE): "consumer list",
    ("consumer", "delete", "c", *STORE): "consumer delete",
    ("entity", "history", "A", "x", *STORE): "entity history",
    ("commit", "list", *STORE): "commit list",
    ("commit", "show", "{head}", *STORE): "commit show",
    ("init", "other.omni", "--schema", "s.pg"): "init",
    ("init", "inferred.omni", "--from", "table.csv"): "init",
    ("import", "imported.omni", "--data", "table.csv"): "import",
    ("clone", "g.omni", "copy.omni"): "clone",
    ("schema", "show", *STORE): "schema show",
    ("schema", "plan", *STORE, "--schema", "s.pg"): "schema plan",
    ("schema", "apply", *STORE, "--schema", "s.pg"): "schema apply",
    ("schema", "plan", "--from", "s.pg", "--schema", "s.pg"): "schema plan",
    ("schema", "infer", "table.csv"): "schema infer",
    ("schema", "lint", "--schema", "s.pg"): "schema lint",
    ("lint", *STORE, "--query", "q.gq"): "lint",
    ("explain", *STORE, "-e", READ): "explain",
    ("explain", *STORE, "-e", WRITE): "explain",
    ("explain", *STORE, "-e", READ, "--analyze"): "explain --analyze",
    ("embed", *STORE): "embed",
    EMBED_FILE: "embed --input",
    ("optimize", *STORE): "optimize",
    ("cleanup", *STORE, "--keep", "9"): "cleanup",
    ("repair", *STORE): "repair",
    ("verify", *STORE): "verify",
    ("maintain", *STORE): "maintain",
    ("recover", *STORE): "recover",
    ("recover", *STORE, "--check"): "recover --check",
    ("recover", "--store", "broken.omni", "--quarantine", "X1", "--confirm"): (
        "recover --quarantine"
    ),
    ("recovery", "pending", *STORE): "recovery pending",
    ("recovery", "list", *STORE): "recovery list",
    ("fmt", "s.pg", "q.gq"): "fmt",
    ("policy", "validate", "--file", "p.yaml"): "policy validate",
    ("policy", "test", "--file", "p.yaml", "--tests", "c.yaml"): "policy test",
    ("policy", "explain", "--file", "p.yaml", "--actor", "a", "--action", "read"): (
        "policy explain"
    ),
    ("queries", "list", *STORE, "--queries", "q.gq"): "queries list",
    ("queries", "validate", *STORE, "--queries", "q.gq"): "queries validate",
    ("cluster", "validate", "town"): "cluster validate",
    ("cluster", "plan", "town"): "cluster plan",
    ("cluster", "apply", "town", "--as", "a"): "cluster apply",
    ("cluster", "status", "town"): "cluster status",
    ("cluster", "refresh", "town"): "cluster refresh",
    ("cluster", "import", "other"): "cluster import",
    ("cluster", "approve", "graph.a", "left", "--as", "a"): "cluster approve",
    ("cluster", "force-unlock", "L", "other"): "cluster force-unlock",
    ("config", "path"): "config path",
    ("config", "show"): "config show",
    ("config", "settings"): "config settings",
    ("config", "token", "https://example.org/g"): "config token",
    ("profile", "list"): "profile list",
    ("profile", "show", "here"): "profile show",
    ("login", "lab", "--token", "t"): "login",
    ("logout", "lab"): "logout",
    ("version",): "version",
}
OF_SERVERS = {"graphs list"}
"""Commands that need a server; tests of served graphs look at what they print."""


def described() -> dict[str, tuple[set[str], set[str]]]:
    """The members of each command that are always present, and those that are optional."""
    found = {}
    for commands, members in re.findall(r"^\| (`.*?) \| (.*) \|$", PAGE.split("## ")[0], re.M):
        always, _, sometimes = members.partition(";")
        of_target = re.sub(r"\(.*?\)", "", always)
        for command in re.findall(r"`([^`]+)`", commands):
            found[command] = tuple(set(re.findall(r"`(\w+)`", t)) for t in (of_target, sometimes))
    return found


def with_json(group: click.Group = root, path: str = "") -> set[str]:
    found = set()
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        own = f"{path} {name}".strip()
        if isinstance(command, click.Group):
            found |= with_json(command, own)
        elif command is not None and not command.hidden:
            takes = any("--json" in parameter.opts for parameter in command.params)
            found |= {own} if takes else set()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("documents")
    graph = library.init(path / "g.omni", SCHEMA)
    graph.load([{"type": "A", "data": {"k": "x", "b": "base64:AA=="}}], "append")
    library.init(path / "broken.omni", SCHEMA)
    intents = path / "broken.omni" / "__recovery"
    intents.mkdir(exist_ok=True)
    (intents / "X1.json").write_text("no intent")
    (path / "s.pg").write_text(SCHEMA)
    (path / "q.gq").write_text(READ)
    (path / "spec.json").write_text(json.dumps(SPEC))
    (path / "rows.jsonl").write_text('{"type": "A", "data": {"k": "y"}}\n')
    (path / "table.csv").write_text("slug,n\na,1\n")
    (path / "config.yaml").write_text(CONFIG)
    (path / "p.yaml").write_text(POLICY)
    (path / "c.yaml").write_text(CASES)
    make_clusters(path)
    return path


def make_clusters(path: Path) -> None:
    """One to apply, one with a lock, and one whose graph is to be deleted."""
    for name in ("town", "other", "left"):
        (path / name).mkdir()
        (path / name / "cluster.yaml").write_text("version: 1\ngraphs: {a: {schema: ../s.pg}}\n")
    apply_cluster(path / "left")
    (path / "left" / "cluster.yaml").write_text("version: 1\n")
    apply_cluster(path / "town")


@pytest.mark.parametrize(("call", "command"), CALLS.items(), ids=[" ".join(c) for c in CALLS])
def test_a_document_has_the_members_the_page_names(
    folder: Path, call, command: str, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder))
    monkeypatch.setenv("OMNIGRAPH_LOAD_ENGINE", "local")
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    if command == "cluster force-unlock":
        (folder / "other/__cluster/lock.json").write_text(LOCK)
    head = library.open(folder / "g.omni").commits()[0].commit_id
    assert run([head if word == "{head}" else word for word in (*call, "--json")]) == 0
    document = json.loads(capsys.readouterr().out)
    members = set(document[0] if isinstance(document, list) else document)
    always, sometimes = described()[command]
    assert always <= members, always - members
    if command != "explain --analyze":  # an operator says of itself what it likes
        assert members <= always | sometimes, members - always - sometimes


def test_the_page_names_every_command_and_no_other() -> None:
    named = {command.split(" --")[0] for command in described()}
    assert named == with_json()
    assert set(CALLS.values()) == set(described()) - OF_SERVERS
