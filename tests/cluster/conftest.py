"""An applied cluster that tests copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash.harness import Workers
from omnigraph.cluster import apply_cluster

FILES = {
    "cluster.yaml": """\
version: 1
graphs:
  library:
    schema: library.pg
    queries: queries
    embedding_provider: text
  people:
    schema: people.pg
policies:
  readers: {file: readers.policy.yaml, applies_to: [library]}
  listing: {file: listing.policy.yaml, applies_to: [cluster]}
providers:
  embedding:
    text: {kind: mock}
""",
    "library.pg": "node Book { slug: String @key  title: String }\n",
    "people.pg": "node Person { name: String @key }\n",
    "queries/books.gq": "query books() { match { $b: Book } return { $b.title } }\n",
    "readers.policy.yaml": "version: 1\ngroups: {all: [ada]}\n"
    "rules: [{id: r, allow: {actors: {group: all}, actions: [read]}}]\n",
    "listing.policy.yaml": "version: 1\ngroups: {all: [ada]}\n"
    "rules: [{id: l, allow: {actors: {group: all}, actions: [graph_list]}}]\n",
}


@pytest.fixture(scope="session")
def workers():
    """Processes that apply clusters and are killed."""
    waiting = Workers()
    yield waiting
    waiting.close()


def write_files(folder: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture(scope="session")
def applied_cluster(tmp_path_factory) -> Path:
    """A folder with two graphs, a query, two policies and a provider, all applied."""
    folder = tmp_path_factory.mktemp("applied")
    write_files(folder)
    assert apply_cluster(folder, actor="maria").converged
    return folder
