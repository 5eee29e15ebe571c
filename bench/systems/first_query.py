"""The first answer of a new process: one step along the edges of a small graph.

Both programs read the same files: the command is given the graph, the bare one the two Lance
tables of that graph which the answer needs.
"""

from __future__ import annotations

import json
import sys
import sysconfig
from pathlib import Path
from typing import Any

from bench.systems import bare_traversal
from bench.systems.command import measured
from bench.systems.social_ours import GRAPH, load_network

_TABLES = "tables.json"
_NEEDED = ("edge:Follows", "node:Person")
_PERSON = "7"
_QUESTION = """query followed($id: String) {
  match { $start: Person { id: $id }  $start follows $person }
  return { $person.number as number, $person.name as name }
}"""


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """The social network as a graph, and where its tables are."""
    graph = load_network(spec)
    tables = {one.table_key: one for one in graph.snapshot().tables}
    paths = [tables[key].table_path for key in _NEEDED]
    (Path(spec["root"]) / _TABLES).write_text(json.dumps(paths))
    return {}


def run_ours(spec: dict[str, Any]) -> dict[str, Any]:
    """The query through the command line."""
    command = [
        str(Path(sysconfig.get_path("scripts")) / "omnigraph"),
        *("query", str(_graph(spec)), "-e", _QUESTION),
        *("--params", json.dumps({"id": _PERSON}), "--json"),
    ]
    return measured(spec, command, lambda printed: json.loads(printed)["rows"])


def run_bare(spec: dict[str, Any]) -> dict[str, Any]:
    """Answer the query with Lance and Arrow alone."""
    paths = json.loads((Path(spec["inputs"]) / _TABLES).read_text())
    tables = [str(_graph(spec) / path) for path in paths]
    # Without `-P` the modules beside the program could hide others of the same name.
    command = [sys.executable, "-P", bare_traversal.__file__, *tables, _PERSON]
    return measured(spec, command, json.loads)


def _graph(spec: dict[str, Any]) -> Path:
    return Path(spec["inputs"]) / GRAPH
