"""A small graph with every kind of file in it, and the ways in which one of them may be damaged."""

from __future__ import annotations

import random
import shutil
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import omnigraph
from crash.fault_points import MANIFEST, At, Stopped, stop, watched
from omnigraph.settings import Settings

SCHEMA = """
node Person {
  name: String @key
  age: I64?
  photo: Blob?
}
edge Knows: Person -> Person
"""
BRANCHES = ("main", "side")
TAG = "seen"
MANY = 5_200
"""The number of deleted rows of a fragment that Lance stores as a bitmap, not as a list."""
PEOPLE = "query q() { match { $p: Person } return { $p.name as name, $p.age as age } }"
PHOTO_BYTES = 100_000
GARBAGE = "left.lance"
CHECKED = Settings(verify_reads=True, cleanup_grace_s=0.0)


TORN = """query q() {
  insert Person { name: "torn" }
  insert Knows { from: "torn", to: "p1" }
}"""


def insert(name: str) -> str:
    return f'query q() {{ insert Person {{ name: "{name}", age: 7 }} }}'


def remove(name: str) -> str:
    return f'query q() {{ delete Person where name = "{name}" }}'


def build(place: Path) -> None:
    """Every kind of file that a graph may have, but for an interrupted write."""
    with omnigraph.init(place, SCHEMA, settings=Settings(cleanup_grace_s=0.0)) as graph:
        graph.load(
            [{"type": "Person", "data": {"name": f"p{i}", "age": i}} for i in range(20)]
            + [{"edge": "Knows", "from": f"p{i}", "to": f"p{i + 1}"} for i in range(19)],
            "append",
        )
        graph.optimize()
        photo = f"base64:{b64encode(bytes(i % 251 for i in range(PHOTO_BYTES))).decode()}"
        graph.load([{"type": "Person", "data": {"name": "seen", "photo": photo}}], "append")
        graph.load(
            [{"type": "Person", "data": {"name": f"m{i}", "age": -1}} for i in range(MANY)]
            + [{"type": "Person", "data": {"name": "last of many", "age": 1}}],
            "append",
        )
        graph.mutate("query q() { delete Person where age = -1 }")
        graph.tag(TAG)
        graph.set_consumer("index")
        graph.create_branch("side")
        graph.create_branch("child", source="side", idempotency_key="once")
        graph.mutate(insert("aside"), branch="side")
        graph.mutate(remove("p4"), branch="side")
        for name in ("old", "older"):
            graph.mutate(insert(name))
            graph.mutate(remove(name))
        graph.cleanup(keep=2, confirm=True)
        graph.mutate(insert("late"))
        graph.mutate(remove("p3"))
    leave_garbage(place)
    leave_half_a_deletion(place)


def leave_garbage(place: Path) -> None:
    """A file that nothing refers to, and a cleanup that has seen it."""
    table = min(place.glob("nodes/*"))
    (table / "data" / GARBAGE).write_bytes(b"left behind")
    with omnigraph.open(place) as graph:
        graph.cleanup(keep=100, confirm=True)


def leave_half_a_deletion(place: Path) -> None:
    """A branch that has lost its name on purpose and is still there."""
    with omnigraph.open(place) as graph:
        graph.create_branch("doomed")
    with watched(At("after", "delete", "_refs/branches/doomed.json", stop)):
        graph = omnigraph.open(place)
        with pytest.raises(Stopped):
            graph.delete_branch("doomed")


def interrupt(place: Path) -> None:
    """Leave a write behind that moved its tables and did not publish them."""
    before = set(place.glob("__manifest/data/*"))
    with watched(At("before", "commit", MANIFEST, stop)):
        graph = omnigraph.open(place)
        with pytest.raises(Stopped):
            graph.mutate(TORN)
    for file in set(place.glob("__manifest/data/*")) - before:
        file.unlink()  # the publish was prepared: nothing will ever refer to this


# --- which files there are ------------------------------------------------------------------------


def _all(*patterns: str) -> Callable[[Path], list[Path]]:
    """The files that match, without what cleanup is about to remove."""

    def find(place: Path) -> list[Path]:
        doomed = {mark.stem for mark in place.glob("_refs/deleted/*.json")}
        found = {file for pattern in patterns for file in place.glob(pattern) if file.is_file()}
        return sorted(
            file
            for file in found
            if file.name != GARBAGE
            and not ({"tree", "branches"} & set(file.parts) and doomed & {file.stem, *file.parts})
        )

    return find


_TABLES = ("nodes/*", "edges/*", "nodes/*/tree/*", "edges/*/tree/*")
_MANIFESTS = ("__manifest", "__manifest/tree/*")

KINDS: dict[str, Callable[[Path], list[Path]]] = {
    "data": _all(*(f"{table}/data/*.lance" for table in _TABLES)),
    "deletion": _all(*(f"{table}/_deletions/*.arrow" for table in _TABLES)),
    "deletion bitmap": _all(*(f"{table}/_deletions/*.bin" for table in _TABLES)),
    "index": _all(*(f"{table}/_indices/*/*" for table in _TABLES)),
    "blob": _all(*(f"{table}/data/*/*.blob" for table in _TABLES)),
    "version": _all(*(f"{table}/_versions/*.manifest" for table in _TABLES)),
    "transaction": _all(*(f"{table}/_transactions/*.txn" for table in (*_TABLES, *_MANIFESTS))),
    "table branch ref": _all(*(f"{at}/*/_refs/branches/*.json" for at in ("nodes", "edges"))),
    "manifest branch ref": _all("__manifest/_refs/branches/*.json"),
    "graph branch ref": _all("_refs/branches/*.json"),
    "deletion mark": _all("_refs/deleted/*.json"),
    "relation mark": _all("_refs/related/*.json"),
    "tag": _all("_refs/tags/*.json"),
    "consumer": _all("_refs/consumers/*.json"),
    "request": _all("_refs/requests/*.json"),
    "record log": _all("_refs/_checksums.log"),
    "manifest data": _all(*(f"{table}/data/*.lance" for table in _MANIFESTS)),
    "manifest version": _all(*(f"{table}/_versions/*.manifest" for table in _MANIFESTS)),
    "intent": _all("__recovery/*.json"),
    "schema mirror": _all("_schema.pg", "_schema.ir.json", "__schema_state.json"),
    "version hint": _all(
        *(f"{table}/_versions/latest_version_hint.json" for table in (*_TABLES, *_MANIFESTS))
    ),
    "lock": _all("__writer.lock", "__writer_queue.lock", ".omnigraph-objects.lock"),
    "unreferenced list": _all("__maintenance/unreferenced.json"),
    "address": _all("__maintenance/address.json"),
    "checksum log": _all(*(f"{table}/_checksums.log" for table in (*_TABLES, *_MANIFESTS))),
}


# --- what becomes of them -------------------------------------------------------------------------


def _delete(_: random.Random, file: Path) -> None:
    file.unlink()


def _cut(seeded: random.Random, file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: seeded.randrange(len(content))] if content else b"")


def _flip(seeded: random.Random, file: Path) -> None:
    content = bytearray(file.read_bytes())
    if content:
        at = seeded.randrange(len(content) * 8)
        content[at // 8] ^= 1 << at % 8
    file.write_bytes(content)


WAYS: dict[str, Callable[[random.Random, Path], None]] = {
    "delete": _delete,
    "cut": _cut,
    "flip": _flip,
}


@dataclass(frozen=True)
class Damaged:
    file: Path
    name: str
    """Relative to the root."""
    before: bytes

    @property
    def is_changed(self) -> bool:
        """Cutting an empty file, or flipping a bit of one, does nothing to it."""
        return not self.file.exists() or self.file.read_bytes() != self.before

    def undo(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(self.before)


@dataclass(frozen=True)
class Case:
    """One damage to one file."""

    kind: str
    way: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.way}-{self.seed}".replace(" ", "_")

    def applied(self, place: Path) -> Damaged:
        """The file is damaged from here on."""
        seeded = random.Random(f"{self}")
        file = seeded.choice(KINDS[self.kind](place))
        damaged = Damaged(file, file.relative_to(place).as_posix(), file.read_bytes())
        WAYS[self.way](seeded, file)
        return damaged


def restore(pristine: Path, place: Path) -> None:
    """The graph as it was built, at the address where it was built."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(pristine, place)


def files_of_tables(place: Path) -> set[str]:
    """Every file below a table or the manifest, and the records of branches."""
    below = {"__manifest", "nodes", "edges", "_refs"}
    files = (file.relative_to(place) for file in place.rglob("*") if file.is_file())
    return {file.as_posix() for file in files if file.parts[0] in below}
