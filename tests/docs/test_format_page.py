"""The page about what is on disk names every file a graph has."""

from __future__ import annotations

import re
from pathlib import Path

import omnigraph
from omnigraph.storage import layout

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "format.md").read_text()
SCHEMA = "node A { k: String @key  text: String? @index  picture: Blob? }\nedge E: A -> A"


RECORD_FOLDERS = (
    layout.BRANCHES,
    layout.DELETED,
    layout.RELATED,
    layout.TAGS,
    layout.CONSUMERS,
    layout.REQUESTS,
)


def named() -> list[re.Pattern[str]]:
    """The paths of the page, as patterns: `<…>` is a name, `*` and `…` anything."""
    paths = re.findall(r"`([^`]+)`", "\n".join(re.findall(r"^\| (`.*?) \|", PAGE, re.M)))
    return [
        re.compile(re.sub(r"<[^>]*>", "[^/]+", re.escape(path).replace(r"\*", "[^/]*")))
        for path in paths
    ]


def is_named(path: str) -> bool:
    parts = path.split("/")
    beginnings = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(
        pattern.fullmatch(one) or pattern.fullmatch(f"{one}/")
        for pattern in named()
        for one in beginnings
    )


def test_every_file_of_a_graph_is_on_the_page(tmp_path: Path) -> None:
    root = tmp_path / "g.omni"
    graph = omnigraph.init(root, SCHEMA, actor="maria")
    rows = [{"type": "A", "data": {"k": f"k{n}", "picture": "base64:AAAA"}} for n in range(20)]
    graph.load(rows, "append")
    graph.create_branch("team/x")
    graph.mutate('query q() { delete A where k = "k1" }', branch="team/x")
    graph.mutate('query q() { update A set { text: "t" } where k = "k2" }')
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    found = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    assert any(path.startswith("_refs/") for path in found)
    assert [path for path in found if not is_named(path)] == []
    assert not is_named("somebody's notes.txt")


def test_every_path_the_code_makes_is_on_the_page() -> None:
    made = [
        layout.MANIFEST,
        layout.ORPHAN_CANDIDATES,
        layout.INIT_CLAIM,
        *layout.SCHEMA_FILES,
        layout.WRITER_LOCK,
        layout.WRITER_QUEUE_LOCK,
        layout.WRITER_LEASE,
        layout.make_staging_path("x"),
        layout.probe_path("x"),
        layout.make_intent_path("x"),
        layout.make_quarantined_intent_path("x"),
        *(layout.make_record_path(folder, "x") for folder in RECORD_FOLDERS),
        layout.make_heartbeat_path("x"),
    ]
    assert [path for path in made if not is_named(path)] == []
