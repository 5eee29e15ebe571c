"""Looking whether everything is in order; nothing is ever changed.

A quick look reads metadata: every branch folds, every table version it shows opens, has as many
rows as recorded and is where its newest version is, the history has no gap. A deep look reads
every row as well: ids are unique, edges end at nodes, indexes find what scans find, and every
file is what was written; rows of a table with a damaged file are not read. Both look at what
branches show now, or at every commit that can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from omnigraph.errors import BranchNotFound, OmniError
from omnigraph.identity import EntityKind, make_table_key
from omnigraph.maintenance.maintenance_results import VerifyFinding, VerifyResult
from omnigraph.maintenance.reachability import Place
from omnigraph.maintenance.stored_indexes import list_stored_indexes
from omnigraph.maintenance.verify_files import Concerned, FileCheck
from omnigraph.maintenance.verify_past import verify_past
from omnigraph.maintenance.verify_refs import verify_refs
from omnigraph.maintenance.verify_report import Report
from omnigraph.maintenance.verify_rows import count_dangling_ends, verify_rows
from omnigraph.maintenance.verify_schema import check_schema
from omnigraph.maintenance.verify_small_files import verify_small_files, verify_unshown_versions
from omnigraph.progress import working
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.manifest import Commit, History, TableEntry
from omnigraph.storage.recovery import examine, list_operations, list_pending_intents
from omnigraph.storage.refs import list_names
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table, describe_indices, open_table
from omnigraph.storage.tables.damage import find_lost_versions
from omnigraph.storage.tables.lance_branches import list_branches
from omnigraph.storage.tables.remove_versions import list_tree_names, list_unreferenced_files
from omnigraph.storage.tables.table import open_newest
from omnigraph.writer.change import BranchReader, CatalogSnapshot

_LOOKS = 3
"""So often a branch is looked at that is written while we look."""


def verify(branches: BranchReader, *, deep: bool = False, history: bool = False) -> VerifyResult:
    """Everything about a graph that is not as it must be, on all its branches.

    With `history` every commit is looked at that can still be read, and not only the newest.
    """
    report, files = Report(Concerned(branches.root)), FileCheck(whole=deep)
    _verify_intents(branches.root, report)
    verify_small_files(branches.root, report)
    verify_refs(branches.root, report)
    names = [str(name) for name in list_names(branches.root.store)]
    with working("verifying", total=len(names), unit="branches") as work:
        for name in names:
            _verify_branch(branches, name, report, files, deep=deep)
            if history:
                verify_past(branches, name, report, files)
            work.advance()
    if history:
        verify_unshown_versions(branches.root, report, whole=deep)
    _count_files(report, files)
    _look_for_leftovers(branches.root, report)
    ordered = sorted(report.findings, key=lambda f: (f.branch or "", f.table_key or "", f.check))
    unique = tuple(dict.fromkeys(ordered))
    return VerifyResult(deep, unique, tuple(report.notes), dict(report.checked))


def _count_files(report: Report, files: FileCheck) -> None:
    report.checked["files"] += files.compared
    if files.unnoted:
        message = f"{files.unnoted} files have no checksum, so damage to them cannot be detected"
        report.note("no_checksum", message)


def _verify_intents(root: GraphRoot, report: Report) -> None:
    for operation in list_operations(root.store):
        report.note("pending_write", f"operation {operation} was interrupted and is not settled")
    try:
        for intent in list_pending_intents(root.store):
            examine(root, intent)
            report.checked["intents"] += 1
    except OmniError as error:
        report.findings.append(VerifyFinding("intent", error.message))


def _verify_branch(
    branches: BranchReader, name: str, report: Report, files: FileCheck, *, deep: bool
) -> None:
    """A branch as it is; a problem counts only if the branch did not move in the meantime."""
    for attempt in range(_LOOKS):
        look = Report(report.concerned, tables=report.tables)
        try:
            seen = branches.read_newest(name)
        except BranchNotFound:
            return  # deleted since it was listed
        except OmniError as error:
            report.wrong("branch", error.message, name)
            return
        _verify_seen(seen, look, files, deep=deep)
        if not look.findings or attempt + 1 == _LOOKS or not _has_moved(branches, seen):
            report.take(look)
            return


def _has_moved(branches: BranchReader, seen: CatalogSnapshot) -> bool:
    try:
        now = branches.read_newest(seen.snapshot.branch).snapshot
    except OmniError:
        return True
    return now.manifest_version != seen.snapshot.manifest_version


def _verify_seen(seen: CatalogSnapshot, report: Report, files: FileCheck, *, deep: bool) -> None:
    snapshot = seen.snapshot
    report.checked["branches"] += 1
    _verify_schema(snapshot, report)
    _verify_history(snapshot, report)
    _run_guarded(report, snapshot.branch, None, lambda: _verify_manifest(snapshot, report, files))
    state, entries = snapshot.state, snapshot.entries.values()
    for identity in state.tombstones:
        report.dropped[state.registrations[identity].path] = state.registrations[identity].table_key
    fresh = [e for e in entries if (e.path, e.owner_branch, e.version) not in report.tables]
    report.looked |= {(e.path, e.owner_branch, e.version) for e in entries}
    with ThreadPoolExecutor(snapshot.root.settings.maintenance_concurrency) as pool:
        list(pool.map(lambda entry: _verify_table(seen, entry, report, files, deep=deep), fresh))
    if deep:
        _run_guarded(report, snapshot.branch, None, lambda: _verify_edges(seen, report, files))


def _verify_schema(snapshot: Snapshot, report: Report) -> None:
    """The schema text, its compiled form and what vouches for both say the same."""
    try:
        check_schema(snapshot.contract)
    except OmniError as error:
        report.wrong("schema", error.message, snapshot.branch)


def _verify_history(snapshot: Snapshot, report: Report) -> None:
    """The commits of a branch are one line, and its head is the newest of them."""
    try:
        commits = History().commits(snapshot.manifest)
    except OmniError as error:
        report.wrong("history", error.message, snapshot.branch)
        return
    report.checked["commits"] += len(commits)
    by_id: dict[str, Commit] = {commit.commit_id: commit for commit in commits}
    head = snapshot.head
    if head is not None and head not in by_id:
        report.wrong("history", f"the head {head} has no commit", snapshot.branch)
    for commit in commits:
        parent = commit.parent_commit_id
        if parent is not None and parent not in by_id:
            message = f"commit {commit.commit_id} has the parent {parent}, which is missing"
            report.wrong("history", message, snapshot.branch)


def _verify_table(
    seen: CatalogSnapshot, entry: TableEntry, report: Report, files: FileCheck, *, deep: bool
) -> None:
    snapshot = seen.snapshot
    branch, key = snapshot.branch, entry.table_key
    _run_guarded(report, branch, key, lambda: _verify_files(snapshot, entry, report, files))

    def look() -> None:
        location = snapshot.location(entry)
        table = open_table(location, entry.version)
        report.checked["tables"] += 1
        rows = table.count_rows()
        if rows != entry.row_count:
            message = f"it has {rows} rows, but {entry.row_count} are recorded"
            report.wrong("row_count", message, branch, key)
        if entry.owner == snapshot.ref.incarnation:
            _verify_head(snapshot, entry, report, files)
        if deep and not files.is_intact(table):
            return  # which has been told
        _verify_indexes(seen, entry, table, report)
        if deep:
            report.checked["rows"] += rows
            verify_rows(table, lambda check, message: report.wrong(check, message, branch, key))

    _run_guarded(report, branch, key, look)


def _verify_manifest(snapshot: Snapshot, report: Report, files: FileCheck) -> None:
    """The files of the manifest are what was written, and none of its versions vanished."""
    table = snapshot.manifest.table
    files.check(table, lambda found: report.add_damaged(found, snapshot, MANIFEST, None))
    for version in find_lost_versions(table.location):
        message = f"version {version} of the manifest was written and is gone"
        report.wrong("lost_version", message, snapshot.branch)


def _verify_files(snapshot: Snapshot, entry: TableEntry, report: Report, files: FileCheck) -> None:
    table = open_table(snapshot.location(entry), entry.version)
    key = entry.table_key
    files.check(table, lambda found: report.add_damaged(found, snapshot, entry.path, key))
    for version in find_lost_versions(table.location):
        message = f"version {version} of {table.location} was written and is gone"
        report.wrong("lost_version", message, snapshot.branch, key)


def _verify_head(snapshot: Snapshot, entry: TableEntry, report: Report, files: FileCheck) -> None:
    """A table its branch owns stands where the graph shows it, but for a write on its way."""
    newest = open_newest(snapshot.location(entry))
    head = newest.version
    if head > entry.version:
        # Settling an interrupted write may come to show it.
        path, key = entry.path, entry.table_key
        files.check(newest, lambda found: report.add_damaged(found, snapshot, path, key))
    message = f"the graph shows version {entry.version}, the newest is {head}"
    if head < entry.version:
        report.wrong("missing_version", message, snapshot.branch, entry.table_key)
    elif head > entry.version and not _is_moving(snapshot, entry):
        report.wrong("drift", message, snapshot.branch, entry.table_key)


def _is_moving(snapshot: Snapshot, entry: TableEntry) -> bool:
    """Whether a writer is at it: it announced that, or has published meanwhile."""
    try:
        announced = any(
            table.path == entry.path
            for intent in list_pending_intents(snapshot.root.store)
            for table in intent.tables
        )
    except OmniError:
        announced = False
    return announced or snapshot.manifest.table.newest_version() != snapshot.manifest_version


def _verify_indexes(seen: CatalogSnapshot, entry: TableEntry, table: Table, report: Report) -> None:
    """Every index can be described; what one does not cover yet is worth knowing."""
    indices, branch = describe_indices(table), seen.snapshot.branch
    type_ = seen.catalog.by_table_key[entry.table_key]
    for spec in list_stored_indexes(type_, entry.row_count):
        found = next((index for index in indices if index.serves(spec)), None)
        if found is None and entry.row_count:
            report.note("index", f"{spec.column} has no {spec.kind} index", branch, entry.table_key)
        elif found is not None and not found.is_complete:
            message = f"the index on {spec.column} does not cover {found.unindexed_rows} rows"
            report.note("index", message, branch, entry.table_key)


def _verify_edges(seen: CatalogSnapshot, report: Report, files: FileCheck) -> None:
    """Every edge ends at nodes that are there, as far as both can be read."""
    for edge in seen.catalog.edges.values():
        edges = seen.snapshot.table(edge.table_key)
        for column, node in (("src", edge.from_type), ("dst", edge.to_type)):
            nodes = seen.snapshot.table(make_table_key(EntityKind.NODE, node))
            if not (files.is_intact(edges) and files.is_intact(nodes)):
                continue
            count, example = count_dangling_ends(edges, column, nodes)
            if count:
                message = f"{count} edges have no {column} in {node}, such as '{example}'"
                report.wrong("orphan_edge", message, seen.snapshot.branch, edge.table_key)


def _look_for_leftovers(root: GraphRoot, report: Report) -> None:
    """What nothing shows now: history, work on its way, or garbage that cleanup will take."""
    shown: set[Place] = {(path, branch) for path, branch, _ in report.tables}
    known = {path for path, _ in shown}
    for path in (MANIFEST, *root.table_paths()):
        if path not in known and path != MANIFEST:
            dropped = report.dropped.get(path)
            if dropped is None:
                report.note("unreferenced_table", f"{path} is not a table of any branch")
            else:
                message = f"{path} holds {dropped} as it was before the schema dropped it"
                report.note("dropped_table", message, table_key=dropped)
            continue
        try:
            location = root.location(path)
            files = list_unreferenced_files(location)
            forks = list_branches(location)
            zombies = [name for name in list_tree_names(location) if name not in forks]
        except OmniError as error:
            report.note("leftovers", error.message)
            continue
        if files:
            size = sum(file.size_bytes for file in files)
            report.note("unreferenced_files", f"{path} has {len(files)} of {size} bytes")
        for name in zombies:
            report.note("zombie_branch", f"{path}/tree/{name} is not a branch")
        for name in forks:
            if path != MANIFEST and (path, name) not in shown:
                report.note(
                    "unreferenced_fork", f"{path}/tree/{name} is not referenced by any branch"
                )


def _run_guarded(
    report: Report, branch: str, table_key: str | None, look: Callable[[], None]
) -> None:
    """Whatever cannot be read is a finding, and the rest is looked at all the same."""
    try:
        look()
    except OmniError as error:
        report.wrong("unreadable", error.message, branch, table_key)
    except ValueError as error:  # values that are no text, or no array
        report.wrong("unreadable", str(error), branch, table_key)
