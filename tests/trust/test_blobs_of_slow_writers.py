"""Blob files are written before the data file they belong to: cleanup may see them alone."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import omnigraph
from crash.fault_points import NODES, At, watched
from omnigraph.graph.graph import Graph
from omnigraph.settings import FenceMode
from omnigraph.storage.orphans import list_removable_paths
from omnigraph.writer.driver import WriteFence
from trust.test_clocks import DAY_US, with_clock

SCHEMA = "node Doc { key: String @key  body: Blob? }"
BODIES = {"shared": b"s" * 70_000, "alone": b"a" * 5_000_000}
INSERT = """\
query q($shared: Blob, $alone: Blob) {
    insert Doc { key: "shared" body: $shared } insert Doc { key: "alone" body: $alone }
}"""
FENCES = pytest.mark.parametrize("fence", [FenceMode.AUTO, FenceMode.OFF])


def insert(graph: Graph) -> None:
    encoded = {key: f"base64:{base64.b64encode(body).decode()}" for key, body in BODIES.items()}
    graph.mutate(INSERT, params=encoded)


def require_whole(place: Path) -> None:
    with omnigraph.open(place) as graph:
        assert {key: graph.read_blob("Doc", key, "body").read() for key in BODIES} == BODIES
        assert graph.verify(deep=True).findings == ()


@pytest.fixture
def place(tmp_path) -> Path:
    with omnigraph.init(tmp_path / "g.omni", SCHEMA) as graph:
        graph.load([{"type": "Doc", "data": {"key": "first"}}], "append")
    return tmp_path / "g.omni"


class HalfWritten:
    """Lets the first cleanup see one blob file of a write, and neither the others nor the rows."""

    def __init__(self, place: Path, size: int, clean: Callable[[], object]) -> None:
        self._place, self._size, self._clean = place, size, clean
        self.seen: Path | None = None

    def act(self) -> None:
        (blob,) = (f for f in self._place.glob("nodes/*/data/*/*.blob") if self._is_wanted(f))
        data = blob.parent.with_suffix(".lance")
        with hidden([data, *(f for f in blob.parent.iterdir() if f != blob)]):
            self._clean()
        self.seen = blob

    def _is_wanted(self, file: Path) -> bool:
        return file.stat().st_size == self._size


@contextmanager
def hidden(files: list[Path]) -> Iterator[None]:
    kept = {file: file.read_bytes() for file in files}
    for file in files:
        file.unlink()
    yield
    for file, data in kept.items():
        file.write_bytes(data)


@FENCES
@pytest.mark.parametrize("key", BODIES)
@pytest.mark.parametrize("is_taken_at_once", [True, False], ids=["at once", "before the fence"])
def test_a_write_whose_blob_file_was_removed_starts_over(
    place, monkeypatch, fence, key, is_taken_at_once
):
    def clean(day: int) -> None:
        with_clock(place, day * DAY_US, 60.0, fence).cleanup(keep=1, confirm=True)

    half = HalfWritten(place, len(BODIES[key]), lambda: clean(0))
    taken: list[Path] = []

    def take() -> None:
        if half.seen is not None and not taken:
            taken.append(half.seen)
            clean(2)
            assert not half.seen.exists()

    def see() -> None:
        half.act()
        if is_taken_at_once:
            take()

    acquire = WriteFence.acquire_fence

    def hold_late(fence: WriteFence):
        take()
        return acquire(fence)

    monkeypatch.setattr(WriteFence, "acquire_fence", hold_late)
    writing = At("after", "write_fragments", NODES, see)
    with watched(writing):
        insert(with_clock(place, 0, 60.0, fence))
    assert len(taken) == 1
    assert writing.met == 2, "it was prepared again"
    require_whole(place)


@pytest.mark.parametrize(("fence", "tries"), [(FenceMode.AUTO, 1), (FenceMode.OFF, 2)])
def test_a_write_starts_over_for_a_listed_blob_file_where_the_fence_may_be_lost(
    place, fence, tries
):
    """A cleanup may be suspended right before it removes the listed files."""
    cleaner = with_clock(place, 0, 60.0, fence)
    half = HalfWritten(place, len(BODIES["alone"]), lambda: cleaner.cleanup(keep=1, confirm=True))
    writing = At("after", "write_fragments", NODES, half.act)
    with watched(writing):
        insert(with_clock(place, 0, 60.0, fence))
    assert writing.met == tries
    assert half.seen is not None
    root = cleaner._open.views.root
    assert half.seen.relative_to(place).as_posix() in list_removable_paths(root.store)
    require_whole(place)
