"""The files a graph can reach, computed independently from its files alone.

Shares nothing with the package: it reads references and manifests as they are on disk and follows
every name in them. Slow and plain on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lance

_NEWEST_FIRST = (1 << 64) - 1


@dataclass
class Reached:
    """Files that are needed, and files that may stay for the sake of others."""

    needed: set[Path] = field(default_factory=set)
    tolerated: set[Path] = field(default_factory=set)
    forks: set[Path] = field(default_factory=set)


def reach(root: Path, keep: int) -> Reached:
    """Everything the newest `keep` commits of every branch need, and its head."""
    found = Reached()
    for incarnation in incarnations(root):
        folder = _branch_folder(root / "__manifest", incarnation)
        for version in _retained(folder, incarnation, keep):
            if not _version_file(folder, version).exists():
                continue  # an earlier cleanup kept fewer
            _add_version(found.needed, folder, version)
            for path, branch, pinned in _pins(folder, version):
                table = _branch_folder(root / path, branch)
                if not _version_file(table, pinned).exists():
                    # An earlier cleanup kept fewer, and only a fork kept the manifest's version.
                    assert version != lance.dataset(str(folder)).version
                    continue
                _add_version(found.needed, table, pinned)
                _add_fork(found, root / path, branch)
        _add_fork(found, root / "__manifest", incarnation)
    _add_fork_points(found)
    _add_starting_points(root, found)
    return found


def incarnations(root: Path) -> list[str | None]:
    refs = sorted((root / "_refs/branches").glob("*.json"))
    return [None, *(json.loads(ref.read_text())["incarnation"] for ref in refs)]


def _branch_folder(table: Path, branch: str | None) -> Path:
    return table if branch is None else table / "tree" / branch


def _version_file(folder: Path, version: int) -> Path:
    return folder / "_versions" / f"{_NEWEST_FIRST - version:020d}.manifest"


def _rows(folder: Path, version: int | None = None) -> list[dict[str, object]]:
    return lance.dataset(str(folder), version=version).to_table().to_pylist()


def _retained(folder: Path, incarnation: str | None, keep: int) -> set[int]:
    commits = [
        int(row["table_version"])
        for row in _rows(folder)
        if row["object_type"] == "graph_commit"
        and json.loads(row["metadata"])["incarnation"] == incarnation
    ]
    newest = lance.dataset(str(folder)).version
    return {newest, *sorted(commits, reverse=True)[:keep]}


def _pins(folder: Path, version: int) -> Iterator[tuple[str, str | None, int]]:
    rows = [row for row in _rows(folder, version) if row["_state"]]
    places = {_identity(r): r["location"] for r in rows if r["object_type"] == "table"}
    dead = {_identity(r) for r in rows if r["object_type"] == "table_tombstone"}
    for row in rows:
        if row["object_type"] == "table_version" and _identity(row) not in dead:
            yield str(places[_identity(row)]), row["table_branch"], int(row["table_version"])


def _identity(row: dict[str, object]) -> tuple[object, object]:
    return row["stable_table_id"], row["table_incarnation_id"]


def _add_version(files: set[Path], folder: Path, version: int) -> None:
    """The file of a version and every file it names, wherever that is."""
    dataset = lance.dataset(str(folder), version=version)
    bases = {number: Path(_path_of(base)) for number, base in dataset.base_paths().items()}

    def home(base_id: int | None) -> Path:
        return folder if base_id is None else bases[base_id]

    files.add(_version_file(folder, version))
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        for file in metadata.files:
            place = home(file.base_id) / "data" / file.path
            files.add(place)
            blobs = place.with_suffix("")
            files |= {blob for blob in blobs.rglob("*") if blob.is_file()}
        deletion = metadata.deletion_file
        if deletion is not None:
            files.add(home(deletion.base_id) / deletion.path(metadata.id))
    for index in dataset.describe_indices():
        for segment in index.segments:
            folder_of_it = home(segment.base_id) / "_indices" / str(segment.uuid)
            files |= {file for file in folder_of_it.rglob("*") if file.is_file()}


def _path_of(base: object) -> str:
    path = str(getattr(base, "path", base))
    return path.removeprefix("file://") if path.startswith("file://") else f"/{path.lstrip('/')}"


def _add_fork(found: Reached, table: Path, branch: str | None) -> None:
    """A branch with its ancestors: each reads files of the one before."""
    while branch is not None:
        found.forks.add(table / "tree" / branch)
        reference = table / "_refs/branches" / f"{branch}.json"
        found.needed.add(reference)
        branch = json.loads(reference.read_text())["parentBranch"]


def _add_fork_points(found: Reached) -> None:
    """The versions branches start at may stay as long as the branches do."""
    for fork in found.forks:
        table = fork.parents[1]
        record = json.loads((table / "_refs/branches" / f"{fork.name}.json").read_text())
        version = int(record["parentVersion"])
        for folder in (_branch_folder(table, record["parentBranch"]), fork):
            if _version_file(folder, version).exists():
                _add_version(found.tolerated, folder, version)


def _add_starting_points(root: Path, found: Reached) -> None:
    """Add the fork points of the manifest: a branch can be created there."""
    for folder, version in [
        (path.parents[1], _NEWEST_FIRST - int(path.stem))
        for path in set(found.tolerated)
        if path.name.endswith(".manifest") and (root / "__manifest") in path.parents
    ]:
        named: set[Path] = set()
        _add_version(named, folder, version)
        if not all(file.exists() for file in named):
            continue  # only its own file was kept for the branch
        for path, branch, pinned in _pins(folder, version):
            table = _branch_folder(root / path, branch)
            if _version_file(table, pinned).exists():
                _add_version(found.tolerated, table, pinned)
                _add_fork(found, root / path, branch)


def substance(root: Path) -> set[Path]:
    """Every file that holds rows, deletions, indexes or versions."""
    kinds = ("data", "_deletions", "_indices", "_versions")
    return {
        file
        for table in (root / "__manifest", *(root / "nodes").iterdir(), *(root / "edges").iterdir())
        for kind in kinds
        for file in table.rglob(f"{kind}/**/*")
        if file.is_file() and file.suffix != ".json"
    }


def trees(root: Path) -> set[Path]:
    """The folders of all physical branches."""
    tables = (root / "__manifest", *(root / "nodes").iterdir(), *(root / "edges").iterdir())
    return {tree for table in tables for tree in (table / "tree").glob("*") if any(tree.iterdir())}
