"""The cost of a maintained graph does not depend on its number of commits."""

from __future__ import annotations

from pathlib import Path

import omnigraph
from maintenance.library_graph import BOOK, SCHEMA, book, fragments, rows_of, run, table
from omnigraph.settings import Settings
from omnigraph.storage.tables.indices import describe_indices
from omnigraph.storage.tables.remove_versions import list_versions

IMPATIENT = Settings(cleanup_grace_s=0)


def size(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def looked_after(graph: omnigraph.Graph) -> omnigraph.Graph:
    graph.optimize()
    for _ in range(2):
        graph.cleanup(keep=1, confirm=True)
    return graph


def test_the_disk_follows_the_rows_and_not_the_commits(tmp_path):
    used = omnigraph.init(tmp_path / "used.omni", SCHEMA, settings=IMPATIENT)
    for number in range(40):
        used.load([book(f"b{number}-{n}", year=n) for n in range(5)], "append")
        run(used, f"update Book set {{year: {number}}} where year = 3")
    before = size(tmp_path / "used.omni")
    looked_after(used)
    fresh = omnigraph.init(tmp_path / "fresh.omni", SCHEMA, settings=IMPATIENT)
    fresh.load(list(used.export()), "append")
    looked_after(fresh)
    assert rows_of(fresh) == rows_of(used)
    assert size(tmp_path / "used.omni") < before / 5
    for folder in ("nodes", "edges"):
        assert size(tmp_path / "used.omni" / folder) <= 1.3 * size(tmp_path / "fresh.omni" / folder)
    # The history is retained for ever, and costs some hundred bytes a commit.
    history = size(tmp_path / "used.omni/__manifest") - size(tmp_path / "fresh.omni/__manifest")
    assert history < 1_000 * len(used.commits())


def test_fragments_segments_and_versions_stay_few_over_many_turns(tmp_path):
    graph = omnigraph.init(tmp_path / "long.omni", SCHEMA, settings=IMPATIENT)
    for turn in range(25):
        for number in range(3):
            graph.load([book(f"b{turn}-{number}", feel=[turn, number, 1])], "append")
        looked_after(graph)
        assert len(fragments(graph, BOOK)) == 1
        assert {len(index.segments) for index in describe_indices(table(graph, BOOK))} == {1}
        assert len(list_versions(table(graph, BOOK).location)) == 1
    assert len(list_versions(graph._open.views.root.manifest())) <= 2
    assert graph.verify(deep=True).findings == ()
    assert len(graph.commits()) == 1 + 25 * 4
