"""Every command that reaches a graph has its method, and both answer with the same fields."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import click
import pytest

import omnigraph
import omnigraph.cluster
from omnigraph.cli.main import omnigraph as root
from omnigraph.cli.main import run

SCHEMA = "node Artist { slug: String @key  name: String  photo: Blob?  feel: Vector(2)? }"
COUNT = "query q() { match { $a: Artist } return { count($a) as n } }"
ADD = 'query q() { insert Artist { slug: "x", name: "X" } }'
RECORDS = [{"type": "Artist", "data": {"slug": "a", "name": "A", "photo": "base64:AA=="}}]
SPEC = {"dimension": 2, "types": {"Artist": {"target": "feel", "fields": ["name"]}}}

LOCAL = {
    *("alias", "login", "logout", "config path", "config show", "config token"),
    *("profile list", "profile show", "completion", "version", "shell", "ingest"),
    *("schema get", "schema lint", "config settings", "fmt", "serve", "graphs list"),
    *("policy validate", "policy test", "policy explain", "queries list", "queries validate"),
}
"""Commands about the operator, the terminal or a file alone, and other names of commands."""

METHODS = {
    "init": "omnigraph.init",
    "clone": "omnigraph.clone",
    "query": "Graph.query",
    "mutate": "Graph.mutate",
    "load": "Graph.load",
    "export": "Graph.export",
    "snapshot": "Graph.snapshot",
    "blob get": "Graph.read_blob",
    "blob stat": "Graph.read_blob",
    "branch create": "Graph.create_branch",
    "branch list": "Graph.branches",
    "branch merge": "Graph.merge",
    "branch rename": "Graph.rename_branch",
    "branch delete": "Graph.delete_branch",
    "tag create": "Graph.tag",
    "tag list": "Graph.tags",
    "tag delete": "Graph.delete_tag",
    "commit list": "Graph.commits",
    "commit show": "Graph.commit",
    "commit changes": "Graph.commit_changes",
    "revert": "Graph.revert",
    "cherry-pick": "Graph.cherry_pick",
    "restore": "Graph.restore",
    "diff": "Graph.diff",
    "changes poll": "Graph.changes",
    "changes baseline": "Graph.baseline",
    "consumer set": "Graph.set_consumer",
    "consumer list": "Graph.consumers",
    "consumer delete": "Graph.delete_consumer",
    "entity history": "Graph.entity_history",
    "schema show": "Graph.schema",
    "schema plan": "Graph.plan_schema",
    "schema apply": "Graph.apply_schema",
    "lint": "Graph.lint",
    "explain": "Graph.explain",
    "embed": "Graph.embed",
    "optimize": "Graph.optimize",
    "cleanup": "Graph.cleanup",
    "repair": "Graph.repair",
    "verify": "Graph.verify",
    "maintain": "Graph.maintain",
    "recover": "Graph.recover",
    "recovery pending": "Graph.recovery_pending",
    "recovery list": "Graph.recovery_list",
    "import": "omnigraph.import_files",
    "schema infer": "omnigraph.infer_schema",
    "cluster validate": "cluster.validate_cluster",
    "cluster plan": "cluster.plan_cluster",
    "cluster apply": "cluster.apply_cluster",
    "cluster approve": "cluster.approve_change",
    "cluster import": "cluster.import_cluster",
    "cluster refresh": "cluster.refresh_cluster",
    "cluster status": "cluster.read_cluster_status",
    "cluster force-unlock": "cluster.unlock_cluster",
}

OWNERS = {"omnigraph": omnigraph, "Graph": omnigraph.Graph, "cluster": omnigraph.cluster}


def command_paths(group: click.Group = root, prefix: str = "") -> set[str]:
    context = click.Context(group)
    found: set[str] = set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        path = f"{prefix} {name}".strip()
        found |= command_paths(command, path) if isinstance(command, click.Group) else {path}
    return found


def test_every_command_has_its_method() -> None:
    assert command_paths() - LOCAL == set(METHODS)
    for verb, method in METHODS.items():
        owner, _, name = method.partition(".")
        assert getattr(OWNERS[owner], name) is not None, verb
        assert set(re.split("[ -]", verb)) & set(name.split("_")) or verb in OTHERWISE_CALLED, verb


OTHERWISE_CALLED = {"branch list", "commit list", "tag list", "consumer list"}
"""Lists are plurals: `branches()`, `commits()`."""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("verbs") / "g.omni"
    omnigraph.init(path, SCHEMA).load(RECORDS, "append")
    (path.parent / "q.gq").write_text(COUNT)
    (path.parent / "s.pg").write_text(SCHEMA)
    (path.parent / "in.jsonl").write_text(json.dumps(RECORDS[0]) + "\n")
    (path.parent / "spec.json").write_text(json.dumps(SPEC))
    return path


DAY = datetime.timedelta(days=1)
SAME_FIELDS = [
    (("query", "-e", COUNT), lambda g: g.query(COUNT).wire()),
    (("mutate", "-e", ADD), lambda g: g.mutate(ADD.replace("x", "y")).wire()),
    (
        ("load", "--data", "in.jsonl", "--mode", "merge", "--engine", "local"),
        lambda g: g.load(RECORDS, "merge").wire(),
    ),
    (("snapshot",), lambda g: g.snapshot().wire()),
    (
        ("blob", "stat", "node", "Artist", "a", "photo"),
        lambda g: g.read_blob("Artist", "a", "photo").stat.wire(),
    ),
    (("branch", "create", "one"), lambda g: g.create_branch("two").wire()),
    (("branch", "list"), lambda g: {"branches": g.branches()}),
    (("branch", "delete", "one"), lambda g: g.delete_branch("two").wire()),
    (("commit", "list"), lambda g: {"commits": [one.wire() for one in g.commits()]}),
    (("tag", "create", "one"), lambda g: g.tag("two").wire()),
    (("tag", "list"), lambda g: {"tags": [one.wire() for one in g.tags()]}),
    (("tag", "delete", "one"), lambda g: g.delete_tag("two").wire()),
    (("diff", "1", "main", "--stat"), lambda g: g.diff("1").count().wire()),
    (
        ("changes", "poll", "--start", "beginning"),
        lambda g: g.changes("beginning").wire(),
    ),
    (("consumer", "set", "one"), lambda g: g.set_consumer("two").wire()),
    (("consumer", "list"), lambda g: {"consumers": [one.wire() for one in g.consumers()]}),
    (("consumer", "delete", "one"), lambda g: g.delete_consumer("two").wire()),
    (
        ("entity", "history", "Artist", "a"),
        lambda g: g.entity_history("Artist", "a").wire(),
    ),
    (("schema", "show"), lambda g: {"schema_source": g.schema}),
    (("schema", "plan", "--schema", "s.pg"), lambda g: g.plan_schema(SCHEMA).wire()),
    (("schema", "apply", "--schema", "s.pg"), lambda g: g.apply_schema(SCHEMA).wire()),
    (("lint", "--query", "q.gq"), lambda g: g.lint(COUNT).wire()),
    (("explain", "-e", COUNT), lambda g: g.at().explain_json(COUNT)),
    (("embed", "--spec", "spec.json"), lambda g: g.embed(spec=SPEC).wire()),
    (("optimize",), lambda g: g.optimize().wire()),
    (
        ("cleanup", "--keep", "5", "--older-than", "1d"),
        lambda g: g.cleanup(keep=5, older_than=DAY).wire(),
    ),
    (("repair",), lambda g: g.repair().wire()),
    (("verify",), lambda g: g.verify().wire()),
    (("maintain",), lambda g: g.maintain().wire()),
    (("recover",), lambda g: {"recovered": [one.wire() for one in g.recover()]}),
    (("recovery", "pending"), lambda g: {"pending": [x.wire() for x in g.recovery_pending()]}),
    (("recovery", "list"), lambda g: {"recoveries": [x.wire() for x in g.recovery_list()]}),
]


def shape(document: object) -> object:
    """The names of the fields, of every object in it."""
    if isinstance(document, dict):
        return {name: shape(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return shape(document[0]) if document else "nothing"
    return "value"


@pytest.mark.parametrize(
    ("arguments", "call"), SAME_FIELDS, ids=[" ".join(a[:2]) for a, _ in SAME_FIELDS]
)
def test_the_command_and_the_method_answer_with_the_same_fields(
    place: Path, arguments, call, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(place.parent)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(place.parent / "home"))
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    assert run([*arguments, "--store", str(place), "--quiet", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    if arguments[0] != "blob":  # a blob may have an address of its own
        printed.pop("uri", None)
    settings = omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
    with omnigraph.open(place, settings=settings) as graph:
        assert shape(printed) == shape(json.loads(json.dumps(call(graph))))
