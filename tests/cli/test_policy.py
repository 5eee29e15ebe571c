"""`omnigraph policy`: bundles are checked, tried and explained from files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

BUNDLE = """\
version: 1
groups:
  agents: [bot]
protected_branches: [main]
rules:
  - id: agents-read
    allow: { actors: { group: agents }, actions: [read], except: [Artist.born] }
  - id: agents-write
    allow: { actors: { group: agents }, actions: [change], branch_scope: unprotected }
"""
CASES = """\
version: 1
cases:
  - { id: reads, actor: bot, action: read, branch: main, expect: allow }
  - { id: writes aside, actor: bot, action: change, branch: dev, expect: allow }
  - { id: no writes to main, actor: bot, action: change, branch: main, expect: deny }
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "p.yaml").write_text(BUNDLE)
    (tmp_path / "c.yaml").write_text(CASES)
    return tmp_path


def test_a_bundle_is_valid(omnigraph, files: Path, schema_file: Path) -> None:
    done = omnigraph("policy", "validate", "--file", "p.yaml", "--schema", str(schema_file))
    assert (done.code, done.out) == (0, "p: 2 rules for 1 actor\n"), done.err
    done = omnigraph("policy", "validate", "--file", "p.yaml", "--json")
    assert json.loads(done.out) == {
        "ok": True,
        "bundle": "p",
        "scope": "graph",
        "actors": 1,
        "rules": 2,
    }


def test_every_mistake_of_a_bundle_is_drawn(omnigraph, files: Path) -> None:
    (files / "p.yaml").write_text(BUNDLE.replace("read]", "reed]").replace("unprotected", "some"))
    done = omnigraph("policy", "validate", "--file", "p.yaml")
    assert done.code == 1
    assert done.out == ""
    assert "--> p.yaml:7:" in done.err
    assert "no such action 'reed'" in done.err
    assert "no such branch scope 'some'" in done.err
    done = omnigraph("policy", "validate", "--file", "p.yaml", "--json")
    body = json.loads(done.out)
    assert done.code == 1
    assert [one["code"] for one in body["diagnostics"]] == ["B114", "B115"]


def test_names_are_held_against_a_schema(omnigraph, files: Path, schema_file: Path) -> None:
    (files / "p.yaml").write_text(BUNDLE.replace("Artist.born", "Artist.brn"))
    done = omnigraph("policy", "validate", "--file", "p.yaml", "--schema", str(schema_file))
    assert done.code == 1
    assert "leaves out Artist.brn" in done.err


def test_a_bundle_of_a_cluster_is_distinguished(omnigraph, files: Path) -> None:
    done = omnigraph("policy", "validate", "--file", "p.yaml", "--scope", "cluster")
    assert done.code == 1
    assert "is not allowed in a cluster bundle" in done.err


def test_cases_are_counted_and_mismatches_named(omnigraph, files: Path) -> None:
    call = ("policy", "test", "--file", "p.yaml", "--tests", "c.yaml")
    done = omnigraph(*call)
    assert (done.code, done.out) == (0, "3 of 3 cases passed\n"), done.err
    (files / "c.yaml").write_text(CASES.replace("deny", "allow"))
    done = omnigraph(*call)
    lines = done.out.splitlines()
    assert done.code == 1
    assert lines[-1] == "2 of 3 cases passed"
    assert len(lines) == 2
    assert "case 'no writes to main' failed" in lines[0]
    done = omnigraph(*call, "--json")
    body = json.loads(done.out)
    assert (done.code, body["ok"], body["passed"], body["failed"]) == (1, False, 2, 1)
    assert body["cases"][2] | {"message": ""} == {
        "id": "no writes to main",
        "passed": False,
        "expect": "allow",
        "decision": "deny",
        "actor": "bot",
        "action": "change",
        "branch": "main",
        "message": "",
    }


def test_mistakes_of_cases_are_drawn(omnigraph, files: Path) -> None:
    text = "version: 1\ncases: [{id: a, actor: bot, action: reed, expect: maybe}, {id: a, on: 1}]\n"
    (files / "c.yaml").write_text(text)
    done = omnigraph("policy", "test", "--file", "p.yaml", "--tests", "c.yaml", "--json")
    codes = [one["code"] for one in json.loads(done.out)["diagnostics"]]
    assert done.code == 1
    assert {"B114", "B122", "B104"} <= set(codes)


def test_a_decision_is_explained_and_exits_with_0(omnigraph, files: Path) -> None:
    call = ("policy", "explain", "--file", "p.yaml", "--actor", "bot")
    done = omnigraph(*call, "--action", "read", "--branch", "main")
    assert done.code == 0
    assert done.out.splitlines()[:5] == [
        "decision: allow",
        "actor: bot",
        "action: read",
        "branch: main",
        "matched_rule: agents-read",
    ]
    assert done.out.splitlines()[-1] == "hidden: Artist.born"
    done = omnigraph(*call, "--action", "schema-apply", "--target-branch", "main", "--json")
    body = json.loads(done.out)
    assert (done.code, body["decision"], body["action"]) == (0, "deny", "schema_apply")
    done = omnigraph(*call, "--action", "rule")
    assert done.code == 2
    assert "no such action 'rule'" in done.err
