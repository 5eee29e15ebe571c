"""Remove unreferenced versions and files of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lance import LanceOperation
from lance.file import LanceFileSession

from omnigraph.errors import HistoricalVersionReclaimed, StorageFailure
from omnigraph.storage.objects.object_store import ObjectStore
from omnigraph.storage.tables import file_probes
from omnigraph.storage.tables.checksums import LOG
from omnigraph.storage.tables.file_integrity import ChecksumRemoval, name_owner, version_parts
from omnigraph.storage.tables.file_probes import report_native_write
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation, is_flat_name
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_operation
from omnigraph.storage.tables.table import Table, is_table, open_newest, open_table
from omnigraph.storage.tables.table_branches import list_branches

if TYPE_CHECKING:
    from lance.lance import CleanupExplanation


AUTO_CLEANUP = "lance.auto_cleanup."


def find_auto_cleanup_keys(table: Table) -> tuple[str, ...]:
    """List the settings that let Lance remove versions by itself."""
    with translate_errors(f"reading the settings of {table!r}"):
        return tuple(sorted(k for k in table.native.config() if k.startswith(AUTO_CLEANUP)))


def stage_without_auto_cleanup(
    table: Table, *, properties: Mapping[str, str]
) -> StagedTransaction | None:
    """The table without those settings; None if it has none."""
    keys = find_auto_cleanup_keys(table)
    if not keys:
        return None
    operation = LanceOperation.UpdateConfig(LanceOperation.UpdateMap(dict.fromkeys(keys)))
    return stage_operation(table, operation, properties=properties)


def require_valid_table(table: Table) -> None:
    """Raise unless fragments, row ids and deletions of this version fit together."""
    with translate_errors(f"validating {table!r}"):
        table.native.validate()  # type: ignore[no-untyped-call]


_EVERY_FILE = 1 << 30
_DELETIONS = "_deletions"


@dataclass(frozen=True, slots=True)
class Removed:
    """Numbers of versions and bytes that were removed, or would be."""

    versions: int = 0
    bytes: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(self.versions + other.versions, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class UnreferencedFile:
    """A file in the folder of a table that no version of it names."""

    path: str
    """Relative to the root of the table, for any branch."""
    size_bytes: int


def list_versions(location: TableLocation) -> list[int]:
    """List the numbers of all existing versions, ascending."""
    return file_probes.list_version_numbers(location) or [open_newest(location).version]


def list_table_tags(location: TableLocation) -> list[tuple[str, str | None, int]]:
    """List the Lance tags of a table: name, branch and version."""
    table = open_newest(location.on_branch(None))
    with translate_errors(f"listing the tags of {location.uri}"):
        found = table.native.tags.list()
    return [(name, tag["branch"], int(tag["version"])) for name, tag in found.items()]


def list_tagged_versions(location: TableLocation) -> set[tuple[str | None, int]]:
    """List the versions with a Lance tag, each with its branch."""
    return {(branch, version) for _, branch, version in list_table_tags(location)}


def preview_removal(location: TableLocation, versions: Sequence[int]) -> Removed:
    """Preview what `remove_versions` would remove."""
    if not versions:
        return Removed()
    table = open_newest(location)
    with translate_errors(f"listing removable versions of {location}"):
        found = table.native.explain_cleanup_old_versions(
            versions=list(versions), error_if_tagged_old_versions=False
        )
    return Removed(int(found.stats.old_versions), int(found.stats.bytes_removed))


def remove_versions(location: TableLocation, versions: Sequence[int]) -> Removed:
    """Remove these versions and every file that only they name."""
    if not versions:
        return Removed()
    table = open_newest(location)
    _drop_outdated_hint(table)
    with (
        translate_errors(f"removing versions of {location}"),
        report_native_write("remove_versions", location),
        ChecksumRemoval(location, versions),
    ):
        done = table.native.cleanup_old_versions(
            versions=list(versions), error_if_tagged_old_versions=False
        )
    return Removed(int(done.old_versions), int(done.bytes_removed))


def remove_versions_by_list(
    store: ObjectStore, location: TableLocation, versions: Sequence[int], concurrency: int
) -> Removed:
    """Remove these versions file by file, with no file that they did not name.

    Lance would also remove unreferenced files that are a week old by the clock of this machine. A
    caller that may lose the fence must not: a writer may just have staged one. Files of versions
    are removed before the files they name, and oldest first; a fork point is not removed alone.
    """
    if not versions:
        return Removed()
    table = open_newest(location)
    _drop_outdated_hint(table)
    with translate_errors(f"removing versions of {location}"):
        found = _explain_removal(table, versions)
        files = {_strip_root(table, file.path): file for file in found.candidate_files}
        # Lance reports every file of that age, including those that these versions name.
        doubtful = {path for path, file in files.items() if file.unverified}
        for path in doubtful - _find_named(location, versions, doubtful, concurrency):
            del files[path]
        folder = location.uri.removeprefix(f"{store.uri}/")
        first = [f"{folder}/{path}" for path in files if file_probes.is_version_path(path)]
        first.sort(reverse=True)
        rest = [f"{folder}/{path}" for path in files if not file_probes.is_version_path(path)]
        with report_native_write("remove_versions", location), ChecksumRemoval(location, versions):
            store.delete_all(first)
            store.delete_all(rest)
    size = sum(int(file.size_bytes) for file in files.values())
    return Removed(int(found.stats.old_versions), size)


def _find_named(
    location: TableLocation, versions: Sequence[int], among: Collection[str], concurrency: int
) -> set[str]:
    """Find those of the files that these versions name, also as part of an index or as a blob."""
    if not among:
        return set()

    def list_names(version: int) -> set[str]:
        try:
            table = _open_to_list(location, version)
        except HistoricalVersionReclaimed:
            return set()  # another cleanup is running
        return {part.name for part in version_parts(location, table.native)}

    with ThreadPoolExecutor(concurrency) as pool:
        named = set().union(*pool.map(list_names, versions))
    start = "" if location.branch is None else f"tree/{location.branch}/"
    return {path for path in among if name_owner(path.removeprefix(start)) in named}


def _explain_removal(
    table: Table, versions: Sequence[int], *, delete_unverified: bool = False
) -> CleanupExplanation:
    """List what Lance would remove with these versions, with every file."""
    return table.native.explain_cleanup_old_versions(
        versions=list(versions),
        delete_unverified=delete_unverified,
        error_if_tagged_old_versions=False,
        include_files=True,
        max_files=_EVERY_FILE,
    )


def _open_to_list(location: TableLocation, version: int) -> Table:
    """Open a version to list its files, which may be missing or damaged."""
    return open_table(replace(location, is_verified=False), version)


def _drop_outdated_hint(table: Table) -> None:
    """Remove the hint of the newest version if it names another one.

    A process that died right after a commit left it outdated. A handle of the named version would
    pass for the newest once all later versions are removed.
    """
    folder = table.location.local_folder
    if folder is None:
        return
    note = Path(folder) / file_probes.NEWEST_HINT
    with translate_errors(f"reading {note}"), suppress(FileNotFoundError):
        if note.read_bytes() != file_probes.encode_newest_hint(table.version):
            note.unlink()


def list_unreferenced_files(location: TableLocation) -> list[UnreferencedFile]:
    """List the files of this branch that no version names, of any age and writer.

    The files of writers that are still staging are among them.
    """
    if location.branch is not None and _names_all_files(location):
        return []
    table = open_newest(location)
    with translate_errors(f"listing unreferenced files of {location}"):
        found = _explain_removal(table, [table.version], delete_unverified=True)
    files = [
        UnreferencedFile(_strip_root(table, file.path), int(file.size_bytes))
        for file in found.candidate_files
        if file.unverified
    ]
    known = {file.path for file in files}
    return [*files, *(file for file in _list_stray_deletions(location) if file.path not in known)]


def _names_all_files(location: TableLocation) -> bool:
    """Return whether the versions of a branch themselves name every file in its folder.

    They usually do. To find out, Lance would read the fork points of all other branches of the
    table, which is too slow to repeat for thousands of branches.
    """
    if file_probes.is_never_written(location):
        return True
    session = LanceFileSession(location.native_uri, storage_options=location.native_options)
    with translate_errors(f"listing the files of {location}"):
        listed = set(map(str, session.list()))
    versions = list_versions(location)
    transactions = {path for path in listed if path.startswith(f"{file_probes.TRANSACTIONS}/")}
    if len(transactions) > len(versions):
        return False
    listed -= transactions
    listed -= {file_probes.NEWEST_HINT, LOG, *map(file_probes.name_version_file, versions)}
    if not listed:
        return True  # never written to
    try:
        tables = [_open_to_list(location, version) for version in versions]
    except HistoricalVersionReclaimed:
        return False  # another cleanup is running
    return listed <= set().union(*(_list_named_files(table) for table in tables))


def _list_named_files(table: Table) -> set[str]:
    """The rows and deletions of a version below the folder of its branch, without indexes."""
    with translate_errors(f"listing the files of {table!r}"):
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
    named = {f"data/{file.path}" for one in fragments for file in one.files}
    return named | {f.deletion_file.path(f.id) for f in fragments if f.deletion_file}


def _list_stray_deletions(location: TableLocation) -> list[UnreferencedFile]:
    """List deletion files that no version names.

    Lance keeps those that may be younger than its oldest version. Their names are unique, so it
    does not matter which branch names one.
    """
    session = LanceFileSession(location.native_uri, storage_options=location.native_options)
    with translate_errors(f"listing the deletions of {location}"):
        listed = [str(path) for path in session.list(_DELETIONS)]
    if not listed:
        return []
    named: set[str] = set()
    for branch in (None, *list_branches(location)):
        try:
            named |= _list_branch_deletions(location.on_branch(branch))
        except StorageFailure:
            if branch is None or is_table(location.on_branch(branch)):
                raise
            continue  # deleted meanwhile, with all of its files
    home = "" if location.branch is None else f"tree/{location.branch}/"
    strays = [path for path in listed if path.rpartition("/")[2] not in named]
    return [
        UnreferencedFile(f"{home}{path}", _measure_local_size(location, path)) for path in strays
    ]


def _list_branch_deletions(location: TableLocation) -> set[str]:
    versions = (_open_to_list(location, version) for version in list_versions(location))
    return {name for table in versions for name in _list_named_deletions(table)}


def _list_named_deletions(table: Table) -> set[str]:
    with translate_errors(f"listing the fragments of {table!r}"):
        fragments = [fragment.metadata for fragment in table.native.get_fragments()]
    return {f.deletion_file.path(f.id).rpartition("/")[2] for f in fragments if f.deletion_file}


def _measure_local_size(location: TableLocation, path: str) -> int:
    """Return the size of a local file; 0 on an object store."""
    folder = location.local_folder
    if folder is None:
        return 0
    with suppress(FileNotFoundError):
        return (Path(folder) / path).stat().st_size
    return 0


def remove_unreferenced(
    location: TableLocation, files: Iterable[UnreferencedFile], check: Callable[[], None]
) -> int:
    """Delete these files unless a version refers to them by now; return the bytes removed.

    Call it under the fence; `check` raises if that was lost meanwhile.
    """
    wanted = {file.path: file for file in files}
    still = [file for file in list_unreferenced_files(location) if file.path in wanted]
    check()
    file_probes.remove_files(location, [file.path for file in still])
    return sum(file.size_bytes for file in still)


def list_tree_names(location: TableLocation) -> tuple[str, ...]:
    """List the branches that have a folder, whether or not the table has a ref for them."""
    root = location.on_branch(None)
    with translate_errors(f"listing the branch folders of {root}"):
        files = LanceFileSession(root.native_uri, storage_options=root.native_options)
        found = files.list_with_delimiter("tree").common_prefixes
    names = (str(prefix).rstrip("/").rpartition("/")[2] for prefix in found)
    return tuple(sorted(name for name in names if is_flat_name(name)))


def _strip_root(table: Table, path: str) -> str:
    """Strip the root of the table from a path."""
    location = table.location
    own_root = location.native_uri.rpartition("/")[2]
    below = path[path.rindex(f"{own_root}/") + len(own_root) + 1 :]
    return below if location.branch is None else f"tree/{location.branch}/{below}"
