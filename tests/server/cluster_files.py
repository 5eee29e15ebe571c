"""Folders with the files of a cluster, and the commands that apply them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from commands.quick_command import quick_command
from server.serving import SCHEMA, Server, serving

TOKENS = {"maria": "token-of-maria", "bot": "token-of-bot"}
GRAPH_RULES = """\
version: 1
groups: { admins: [maria], agents: [bot] }
rules:
  - id: admins
    allow:
      actors: { group: admins }
      actions: [read, export, change, schema_apply, invoke_query]
  - id: agents
    allow: { actors: { group: agents }, actions: [read] }
"""
SERVER_RULES = """\
version: 1
groups: { admins: [maria] }
rules: [{ id: list, allow: { actors: { group: admins }, actions: [graph_list] } }]
"""
NAMES = "query names() { match { $p: Person } return { $p.name } order { $p.name } }\n"


def count_query(name: str) -> str:
    return f"query {name}() {{ match {{ $p: Person }} return {{ count($p) as n }} }}\n"


@dataclass
class ClusterFolder:
    """A working tree: what it declares is changed, written and applied."""

    path: Path
    graphs: dict[str, dict[str, object]] = field(default_factory=dict)
    policies: dict[str, dict[str, object]] = field(default_factory=dict)
    providers: dict[str, dict[str, object]] = field(default_factory=dict)
    storage: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    """Variables by which commands reach the storage."""

    def write(self, name: str, text: str) -> str:
        """Write a file of the tree; return its name."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text(text)
        return name

    def declare_graph(self, graph_id: str, queries: str = NAMES, schema: str = SCHEMA) -> None:
        """Declare a graph with a schema and a file of stored queries."""
        self.graphs[graph_id] = {
            "schema": self.write(f"{graph_id}.pg", schema),
            "queries": [self.write(f"queries/{graph_id}.gq", queries)],
        }

    def declare_policy(self, name: str, text: str, *applies_to: str) -> None:
        file = self.write(f"{name}.policy.yaml", text)
        self.policies[name] = {"file": file, "applies_to": list(applies_to)}

    def save(self) -> None:
        body: dict[str, object] = {"version": 1, "graphs": self.graphs}
        if self.policies:
            body["policies"] = self.policies
        if self.providers:
            body["providers"] = {"embedding": self.providers}
        if self.storage is not None:
            body["storage"] = self.storage
        self.write("cluster.yaml", yaml.safe_dump(body))

    def run(self, *arguments: str, code: int = 0) -> dict:
        """Run a command of `omnigraph cluster`; return the document that it printed."""
        done = subprocess.run(
            quick_command("cluster", *arguments, str(self.path), "--json"),
            capture_output=True,
            text=True,
            env={**os.environ, "OMNIGRAPH_HOME": str(self.path / "no-home"), **self.environment},
            check=False,
            timeout=600,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def apply(self) -> dict:
        """Save and apply all declarations of the tree."""
        self.save()
        done = self.run("apply", "--as", "maria")
        assert done["converged"], done
        return done

    def delete_graph(self, graph_id: str) -> None:
        """Remove a graph from the tree, with the approval that this needs."""
        del self.graphs[graph_id]
        self.save()
        self.run("approve", f"graph.{graph_id}", "--as", "maria")
        self.apply()

    @property
    def state_file(self) -> Path:
        return self.path / "__cluster" / "state.json"

    def replace_state(self, data: bytes) -> None:
        """Replace the ledger atomically."""
        beside = self.path / "state.new"
        beside.write_bytes(data)
        beside.replace(self.state_file)


@contextmanager
def serving_cluster(
    place: object, *flags: str, poll: str = "0", **environment: str
) -> Iterator[Server]:
    """Start a server of a cluster with a token for every actor; maria is the default."""
    given = {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS),
        "OMNIGRAPH_CLUSTER_POLL_SECONDS": poll,
        **environment,
    }
    everything = ("--cluster", str(place), *flags)
    with serving(flags=everything, token=TOKENS["maria"], **given) as server:
        yield server
