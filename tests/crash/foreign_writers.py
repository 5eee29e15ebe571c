"""Programs that write the tables of a graph without asking the graph."""

from __future__ import annotations

from pathlib import Path

import lance

from omnigraph import Graph


def table_place(place: Path, graph: Graph, key: str, branch: str = "main") -> str:
    """The address of a table as a branch shows it."""
    table = next(t for t in graph.snapshot(branch).tables if t.table_key == key)
    tree = f"tree/{table.table_branch}" if table.table_branch else ""
    return str(place / table.table_path / tree)


def append_raw(place: Path, graph: Graph, key: str, branch: str = "main") -> None:
    """Append an existing row, past every rule of the graph."""
    address = table_place(place, graph, key, branch)
    lance.write_dataset(lance.dataset(address).to_table().slice(0, 1), address, mode="append")


def replace_fork(place: Path, graph: Graph, key: str, branch: str) -> None:
    """Put another fork of the same name in the place of the one a branch shows."""
    table = next(t for t in graph.snapshot(branch).tables if t.table_key == key)
    main = lance.dataset(str(place / table.table_path))
    main.branches.delete(table.table_branch)
    main.create_branch(table.table_branch, 1)
