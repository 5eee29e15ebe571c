"""List the files a version consists of, and compare them with their recorded checksums."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import lance
from lance.fragment import FragmentMetadata

from omnigraph.errors import ManifestCorrupt, StorageFailure, StorageKind
from omnigraph.storage.tables.checksums import (
    LOG,
    Checksum,
    ChecksumLog,
    ChecksumLogs,
    Damage,
    add_checksums,
    find_damage,
    forget_files,
    read_last_lines,
    read_log,
    record_checksums,
    shorten_log,
)
from omnigraph.storage.tables.file_probes import (
    NEWEST_HINT,
    is_hint_current,
    is_lance_branch,
    name_branch_file,
    name_version_file,
    require_plain_folders,
)
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation, is_flat_name

_DATA_SUFFIX = ".lance"
_SHOWN_FRAGMENTS = 8


class PartKind(StrEnum):
    DATA = "data"
    DELETIONS = "deletions"
    INDEX = "index"
    VERSION = "version"
    BRANCH = "branch"


@dataclass(frozen=True, slots=True)
class Part:
    """One file with those that go with it; of an index `name` is its folder."""

    kind: PartKind
    folder: str
    """The folder of the branch it is in, which may be the parent of the one that names it."""
    name: str
    fragments: tuple[int, ...] = ()
    rows: int = 0
    version: int = 0

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.name}"

    @property
    def content(self) -> str:
        """The content of the file, for messages."""
        match self.kind:
            case PartKind.DATA:
                return f"the {self.rows} rows of fragment {self.fragments[0]}"
            case PartKind.DELETIONS:
                return f"which rows of fragment {self.fragments[0]} are deleted"
            case PartKind.INDEX:
                return f"an index of the {self.rows} rows of fragments {_join_ids(self.fragments)}"
            case PartKind.VERSION:
                return f"what version {self.version} with its {self.rows} rows is made of"
            case PartKind.BRANCH:
                return "where a branch of the table starts"

    def list_checksums(self, log: ChecksumLog) -> Sequence[Checksum]:
        """The checksums of its files; empty if there are none."""
        if self.kind is PartKind.VERSION:
            return log.about(self.version)
        if self.kind is PartKind.INDEX:
            return log.below(self.name)
        own = log.files.get(self.name)
        if own is None or self.kind is not PartKind.DATA:
            return [] if own is None else [own]
        return [own, *log.below(self.name.removesuffix(_DATA_SUFFIX))]


def name_owner(file: str) -> str:
    """The name of the part that a file below the folder of a branch belongs to."""
    folder, *rest = file.split("/")
    if folder == "_indices":
        return f"{folder}/{rest[0]}"
    return f"{folder}/{rest[0]}{_DATA_SUFFIX}" if folder == "data" and len(rest) > 1 else file


def version_parts(location: TableLocation, native: lance.LanceDataset) -> list[Part]:
    """List the parts that a version consists of."""
    folder = _folder(location)
    with translate_errors(f"listing the files of version {native.version} of {location}"):
        return list(_parts(location, native, folder))


def _parts(location: TableLocation, native: lance.LanceDataset, folder: str) -> Iterator[Part]:
    fragments = [fragment.metadata for fragment in native.get_fragments()]
    rows_of = {fragment.id: fragment.num_rows for fragment in fragments}
    version, rows = int(native.version), sum(rows_of.values())
    yield Part(PartKind.VERSION, folder, name_version_file(version), rows=rows, version=version)
    if location.branch is not None:
        yield _branch_part(location, location.branch)
    bases: dict[int | None, str] = {
        id: _base_folder(location, base.path) for id, base in native.base_paths().items()
    }
    for fragment in fragments:
        yield from _data_parts(folder, fragment, bases)
        yield from _deletion_parts(folder, fragment, bases)
    for index in native.describe_indices():
        for segment in index.segments:
            covered = tuple(sorted(set(segment.fragment_ids) & rows_of.keys()))
            base = bases.get(segment.base_id, folder)
            indexed = sum(rows_of[id] for id in covered)
            yield Part(PartKind.INDEX, base, f"_indices/{segment.uuid}", covered, indexed)


def _data_parts(
    folder: str, fragment: FragmentMetadata, bases: Mapping[int | None, str]
) -> Iterator[Part]:
    for file in fragment.files:
        base, rows = bases.get(file.base_id, folder), fragment.num_rows
        yield Part(PartKind.DATA, base, f"data/{file.path}", (fragment.id,), rows)


def _deletion_parts(
    folder: str, fragment: FragmentMetadata, bases: Mapping[int | None, str]
) -> Iterator[Part]:
    file = fragment.deletion_file
    if file is not None:
        base = bases.get(file.base_id, folder)
        yield Part(PartKind.DELETIONS, base, file.path(fragment.id), (fragment.id,))


def _branch_part(location: TableLocation, branch: str) -> Part:
    return Part(PartKind.BRANCH, _folder(location.on_branch(None)), name_branch_file(branch))


def _folder(location: TableLocation) -> str:
    return location.local_folder or location.native_uri


def _base_folder(location: TableLocation, path: str) -> str:
    """Return the folder of a base path: the root of the same table, or another of its branches."""
    parent, _, name = path.rstrip("/").rpartition("/")
    branch = name if parent.endswith("/tree") and is_flat_name(name) else None
    return _folder(location.on_branch(branch))


def _join_ids(fragments: tuple[int, ...]) -> str:
    shown = ", ".join(str(id) for id in fragments[:_SHOWN_FRAGMENTS])
    more = len(fragments) - _SHOWN_FRAGMENTS
    return f"{shown} and {more} more" if more > 0 else shown


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file that is not as it was written."""

    part: Part
    name: str
    damage: Damage
    size: int | None = None
    """The recorded length, where it is known."""

    @property
    def path(self) -> str:
        return f"{self.part.folder}/{self.name}"

    @property
    def problem(self) -> str:
        return _describe_damage(self.damage, self.size)

    @property
    def is_read(self) -> bool:
        """Transactions are for recovery: a version is read without them."""
        return not self.name.startswith("_transactions/")


def _describe_damage(damage: Damage, size: int | None) -> str:
    match damage:
        case Damage.MISSING:
            return "is missing"
        case Damage.LENGTH:
            return f"does not have the {size} bytes it was written with"
        case Damage.CONTENT:
            return "is not what was written: its checksum differs"
        case Damage.UNREADABLE:
            return "cannot be read"


def find_damaged(
    part: Part, logs: ChecksumLogs, *, whole: bool = True
) -> tuple[list[DamagedFile], bool]:
    """Find damaged files of a part, and whether checksums were available.

    Without a checksum a file can only be found missing.
    """
    noted = part.list_checksums(logs.of(part.folder))
    if not noted:
        is_there = os.path.lexists(part.path)
        return [] if is_there else [DamagedFile(part, part.name, Damage.MISSING)], False
    found = ((one, find_damage(part.folder, one, whole=whole)) for one in noted)
    return [DamagedFile(part, one.name, bad, one.size) for one, bad in found if bad], True


_intact: set[tuple[str, str, tuple[int, ...]]] = set()
"""Files compared by this process, with their identity in the file system at that time.

Branches share files, so the branch is irrelevant.
"""


def require_intact(location: TableLocation, native: lance.LanceDataset) -> None:
    """Raise unless every file of this version has its recorded checksum.

    Each file is compared once per process.
    """
    if location.local_folder is None:
        return  # object stores verify their objects
    logs, generation = location.checksum_logs or ChecksumLogs(), location.cache_key[1]
    for part in version_parts(location, native):
        mark = (generation, part.path, _identity(part.path))
        if mark in _intact:
            continue
        damaged = [one for one in find_damaged(part, logs)[0] if one.is_read]
        if damaged:
            first = damaged[0]
            raise StorageFailure(
                StorageKind.PERMANENT,
                f"{first.path} {first.problem}; it says {part.content}. "
                "`omnigraph verify --deep` names everything that is damaged",
            )
        _intact.add(mark)


def _identity(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


# --- versions that vanished -----------------------------------------------------------------------


def find_lost_versions(location: TableLocation) -> list[int]:
    """List versions that were recorded, not removed, and whose file is missing; ascending."""
    folder = location.local_folder
    if folder is None:
        return []
    lost = _list_lost(folder, read_log(folder))
    # Checked twice: cleanup may have removed one between the log and its file.
    return [v for v in lost if v in _list_lost(folder, read_log(folder))] if lost else []


def find_lost_after(location: TableLocation, version: int) -> int | None:
    """Return the first version after this one that is lost; None if none is known.

    Reads the end of the log only, since every read of a branch calls it.
    """
    folder = location.local_folder
    lost = [] if folder is None else _list_lost(folder, read_last_lines(folder))
    return next((one for one in lost if one > version), None)


def list_damaged_versions(location: TableLocation, *, whole: bool) -> list[tuple[str, str]]:
    """List the damaged files of versions and their transactions, with the problem of each.

    Checked twice: cleanup may have removed one between the log and its file.
    """
    folder = location.local_folder
    if folder is None:
        return []
    first = _find_damaged_versions(folder, whole=whole)
    again = _find_damaged_versions(folder, whole=whole) if first else {}
    return [(f"{folder}/{name}", text) for name, text in again.items() if name in first]


def _find_damaged_versions(folder: str, *, whole: bool) -> dict[str, str]:
    noted = [one for one in read_log(folder).files.values() if one.version is not None]
    found = {one: find_damage(folder, one, whole=whole) for one in noted}
    return {one.name: _describe_damage(bad, one.size) for one, bad in found.items() if bad}


def _list_lost(folder: str, log: ChecksumLog) -> list[int]:
    versions = {one.version for one in log.files.values() if one.version is not None}
    return sorted(v for v in versions if not os.path.lexists(f"{folder}/{name_version_file(v)}"))


class ChecksumRemoval:
    """Removes versions from the log before their files, so that they are not reported as lost.

    Versions that remain after all are recorded again. A crash in between loses log lines only. A
    transaction that remains without its version is not recorded, or it would be reported as lost.
    """

    def __init__(self, location: TableLocation, versions: Sequence[int]) -> None:
        self._folder, self._versions = location.local_folder, versions
        self._noted: list[Checksum] = []

    def __enter__(self) -> None:
        if self._folder is not None:
            log = read_log(self._folder)
            wanted = set(self._versions)
            self._noted = [one for one in log.files.values() if one.version in wanted]
            forget_files(self._folder, [one.name for one in self._noted])

    def __exit__(self, *_: object) -> None:
        folder = self._folder
        if folder is not None:
            files = {version: name_version_file(version) for version in self._versions}
            there = {v for v, file in files.items() if os.path.lexists(f"{folder}/{file}")}
            still = [one for one in self._noted if one.version in there]
            add_checksums(folder, [one for one in still if os.path.lexists(f"{folder}/{one.name}")])


@contextmanager
def rewritten_version(location: TableLocation, file_name: str) -> Iterator[None]:
    """Record a version file again that is rewritten in the block, unless it was damaged before.

    Its line is removed first: a crash in between leaves no checksum instead of a wrong one.
    """
    folder, name = location.local_folder, f"_versions/{file_name}"
    noted = None if folder is None else read_log(folder).files.get(name)
    if folder is None or noted is None or find_damage(folder, noted) is not None:
        yield
        return
    forget_files(folder, [name])
    yield
    record_checksums(folder, [name], noted.version)


# --- checks before cleanup -----------------------------------------------------------------------


def require_version_file(location: TableLocation, version: int, logs: ChecksumLogs) -> None:
    """Raise if a version file is damaged; a missing one is ignored.

    Cleanup removes every file that no version file names.
    """
    folder, name = location.local_folder, name_version_file(version)
    noted = None if folder is None else logs.of(folder).files.get(name)
    if folder is None or noted is None or not os.path.lexists(f"{folder}/{name}"):
        return
    if find_damage(folder, noted) is not None:
        raise ManifestCorrupt(
            f"{folder}/{name} is damaged, so the files of version {version} are unknown; "
            "restore the file from a backup"
        )


def require_branch_ref(location: TableLocation, branch: str, logs: ChecksumLogs) -> None:
    """Raise unless the table has the ref of this branch as it was written.

    Lance retains the files of the parent only because of that ref.
    """
    if not is_lance_branch(location, branch):
        raise ManifestCorrupt(
            f"{location.uri}/{name_branch_file(branch)} is gone, so nothing keeps the files that "
            f"branch {branch} shares with its parent; restore the file from a backup"
        )
    root = location.on_branch(None).local_folder
    noted = None if root is None else logs.of(root).files.get(name_branch_file(branch))
    if root is not None and noted is not None and find_damage(root, noted) is not None:
        raise ManifestCorrupt(
            f"{root}/{noted.name} is not what was written; restore the file from a backup"
        )


def drop_stale_checksums(location: TableLocation) -> None:
    """Rewrite the log of a branch without files that no longer exist."""
    folder = location.local_folder
    if folder is not None:
        require_plain_folders(location, (LOG,))
        shorten_log(folder)


# --- small files beside a table -------------------------------------------------------------------


def small_file_problems(location: TableLocation) -> list[tuple[str, str]]:
    """List problems of the checksum log and of the hint of the newest version, by check name."""
    folder = location.local_folder
    if folder is None:
        return []
    problems = []
    damaged = read_log(folder).damaged_lines
    if damaged:
        problems.append(("checksum_log", f"{folder}/{LOG} has {damaged} damaged lines"))
    if not is_hint_current(location):
        problems.append(
            ("version_hint", f"{folder}/{NEWEST_HINT} does not name the newest version")
        )
    return problems
