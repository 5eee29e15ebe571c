"""Verify a graph: branches, every readable commit, rows and schema; nothing is ever changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import check_contract
from omnigraph.errors import BranchNotFound, HistoricalVersionReclaimed, OmniError
from omnigraph.identity import BranchName, EntityKind, make_table_key
from omnigraph.language.source import SourceText
from omnigraph.maintenance.maintenance_results import VerifyFinding, VerifyResult
from omnigraph.maintenance.optimize_steps import list_stored_indexes
from omnigraph.maintenance.verify_storage import (
    AffectedCommits,
    FileCheck,
    Report,
    verify_refs,
    verify_small_files,
    verify_unshown_versions,
)
from omnigraph.progress import working
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import MANIFEST, SCHEMA_SOURCE
from omnigraph.storage.manifest import (
    CommitRecord,
    History,
    SchemaContract,
    TableEntry,
    read_manifest,
)
from omnigraph.storage.recovery import examine, list_operations, list_pending_intents
from omnigraph.storage.refs import BranchRef, list_names, read_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    LanceIndexKind,
    PhysicalTable,
    Table,
    build_in_list,
    describe_indices,
    open_table,
)
from omnigraph.storage.tables.file_integrity import DamagedFile, find_lost_versions
from omnigraph.storage.tables.remove_versions import (
    list_tree_names,
    list_unreferenced_files,
    list_versions,
    require_valid_table,
)
from omnigraph.storage.tables.row_lookup import can_be_listed
from omnigraph.storage.tables.table import open_newest
from omnigraph.storage.tables.table_branches import list_branches
from omnigraph.writer.change import BranchReader, CatalogSnapshot


def check_schema(contract: SchemaContract) -> Catalog:
    """Return the accepted catalog, recompiled from its text.

    Raises:
        SchemaContractMismatch: text, compiled form and state record disagree.
    """
    draft = compile_schema(SourceText(contract.source, SCHEMA_SOURCE))
    return check_contract(contract.ir, contract.state, identify_first(draft, "comparison"))


Complain = Callable[[str, str], None]

SAMPLE_SIZE = 200
"""The number of values of an indexed column that are looked up through the index."""


def verify_rows(table: Table, complain: Complain) -> None:
    """Report every problem of the rows of a table."""
    ids: Counter[str | None] = Counter()
    columns = [field.name for field in table.schema]
    for batch in table.batches(columns, blob_bytes=True):
        batch.validate(full=True)
        ids.update(batch.column("id").to_pylist())
    for id, count in ids.items():
        if id is None:
            complain("id", f"{count} rows have no id")
        elif count > 1:
            complain("duplicate_id", f"'{id}' occurs {count} times")
    require_valid_table(table)
    for message in _find_index_mistakes(table):
        complain("index", message)


def count_dangling_ends(edges: Table, column: str, nodes: Table) -> tuple[int, str | None]:
    """Count the edges with a missing endpoint, and return one such endpoint."""
    ids = nodes.scan(["id"]).column("id").combine_chunks()
    count, example = 0, None
    for batch in edges.batches([column]):
        ends = batch.column(column)
        missing = ends.filter(pc.invert(pc.is_in(ends, value_set=ids)))
        count += len(missing)
        if len(missing) and example is None:
            example = str(missing[0].as_py())
    return count, example


def _find_index_mistakes(table: Table) -> Iterator[str]:
    """Yield B-tree indexes whose look-ups differ from a scan."""
    for index in describe_indices(table):
        column = index.columns[0]
        is_tree = index.kind.upper() == LanceIndexKind.BTREE and index.columns == (column,)
        if not is_tree or not can_be_listed(table.schema.field(column).type):
            continue
        wanted = _sample(table, column)
        if not len(wanted):
            continue
        filter = build_in_list(column, wanted)
        fast = _collect_ids(table.scan(["id"], filter))
        slow = _collect_ids(table.scan(["id"], filter, use_index=False))
        if fast != slow:
            missing, extra = len(slow - fast), len(fast - slow)
            yield f"the index on {column} misses {missing} rows and adds {extra}"


def _sample(table: Table, column: str) -> pa.Array:
    """Return values spread over the whole column."""
    values = pc.unique(table.scan([column]).column(column)).drop_null()
    step = max(1, len(values) // SAMPLE_SIZE)
    taken = values.take(pa.array(range(0, len(values), step), pa.int64())[:SAMPLE_SIZE])
    return taken.combine_chunks() if isinstance(taken, pa.ChunkedArray) else taken


def _collect_ids(rows: pa.Table) -> set[str]:
    return set(rows.column("id").to_pylist())


def verify_past(branches: BranchReader, name: str, report: Report, files: FileCheck) -> None:
    """Verify that every manifest version of a branch can be read, and its tables opened."""
    root = branches.root
    try:
        ref = read_ref(root.store, BranchName(name))
        versions = list_versions(root.manifest(ref.incarnation))
    except BranchNotFound:
        return  # deleted since it was listed
    except OmniError as error:
        report.wrong("history", error.message, name)
        return
    for version in versions:
        try:
            manifest = read_manifest(root.manifest(ref.incarnation), version)
            snapshot = Snapshot(root, ref, manifest)
            check_schema(snapshot.contract)
            _verify_past_manifest(snapshot, report, files)
        except HistoricalVersionReclaimed:
            _verify_reclaimed(root, ref, version, report, files)
            continue
        except OmniError as error:
            report.wrong("history", f"manifest version {version}: {error.message}", name)
            continue
        report.checked["manifest_versions"] += 1
        for entry in snapshot.entries.values():
            _verify_entry(snapshot, entry, report, files)


def _verify_reclaimed(
    root: GraphRoot, ref: BranchRef, version: int, report: Report, files: FileCheck
) -> None:
    """Report files of a manifest version that are missing, though no cleanup removed them.

    Cleanup removes files of a branch's start version along with their checksums.
    """

    def complain(found: DamagedFile) -> None:
        if found.size is not None:
            message = f"manifest version {version}: {found.name} {found.problem}"
            report.wrong("missing_file", message, ref.name)

    with suppress(OmniError):  # cleaned away altogether
        files.check(open_table(root.manifest(ref.incarnation), version), complain)


def _verify_past_manifest(snapshot: Snapshot, report: Report, files: FileCheck) -> None:
    table = snapshot.manifest.table
    files.check(table, lambda found: report.add_damaged(found, snapshot, MANIFEST, None))


def _verify_entry(snapshot: Snapshot, entry: TableEntry, report: Report, files: FileCheck) -> None:
    table_version = (entry.path, entry.owner_branch, entry.version)
    if table_version in report.tables:
        return
    report.tables.add(table_version)
    branch, key = snapshot.branch, entry.table_key
    try:
        table = open_table(snapshot.location(entry), entry.version)
        rows = table.count_rows()
        files.check(table, lambda found: report.add_damaged(found, snapshot, entry.path, key))
    except OmniError as error:
        if list_versions(snapshot.manifest.location).count(snapshot.manifest_version):
            report.wrong("unreadable", error.message, branch, key)
        return
    report.checked["tables"] += 1
    if rows != entry.row_count:
        message = f"version {entry.version} has {rows} rows and is recorded with {entry.row_count}"
        report.wrong("row_count", message, branch, key)


_MAX_ATTEMPTS = 3
"""Attempts on a branch that is being written."""


def verify(branches: BranchReader, *, deep: bool = False, history: bool = False) -> VerifyResult:
    """Verify a graph on all its branches.

    With `history` every readable commit is verified, not only the newest.
    """
    report, files = Report(AffectedCommits(branches.root)), FileCheck(whole=deep)
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
    _note_orphans(branches.root, report)
    ordered = sorted(report.findings, key=lambda f: (f.branch or "", f.table_key or "", f.check))
    unique = tuple(dict.fromkeys(ordered))
    return VerifyResult(deep, not unique, unique, tuple(report.notes), dict(report.checked))


def _count_files(report: Report, files: FileCheck) -> None:
    report.checked["files"] += files.compared
    if files.unnoted:
        message = f"{files.unnoted} files have no checksum, so damage to them cannot be detected"
        report.note("no_checksum", message)


def _verify_intents(root: GraphRoot, report: Report) -> None:
    for operation in list_operations(root.store):
        report.note("pending_write", f"operation {operation} was interrupted and is not recovered")
    try:
        for plan in list_pending_intents(root.store):
            examine(root, plan)
            report.checked["intents"] += 1
    except OmniError as error:
        report.findings.append(VerifyFinding("intent", None, None, error.message))


def _verify_branch(
    branches: BranchReader, name: str, report: Report, files: FileCheck, *, deep: bool
) -> None:
    """Verify a branch at its head; a problem counts only if the branch did not move meanwhile."""
    for attempt in range(_MAX_ATTEMPTS):
        look = Report(report.concerned, tables=report.tables)
        try:
            seen = branches.read_newest(name)
        except BranchNotFound:
            return  # deleted since it was listed
        except OmniError as error:
            report.wrong("branch", error.message, name)
            return
        _verify_seen(seen, look, files, deep=deep)
        if not look.findings or attempt + 1 == _MAX_ATTEMPTS or not _has_moved(branches, seen):
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
    """Verify that the schema text, its compiled form and the state record agree."""
    try:
        check_schema(snapshot.contract)
    except OmniError as error:
        report.wrong("schema", error.message, snapshot.branch)


def _verify_history(snapshot: Snapshot, report: Report) -> None:
    """Verify that the commits of a branch form one line whose newest is its head."""
    try:
        commits = History().commits(snapshot.manifest)
    except OmniError as error:
        report.wrong("history", error.message, snapshot.branch)
        return
    report.checked["commits"] += len(commits)
    by_id: dict[str, CommitRecord] = {commit.commit_id: commit for commit in commits}
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
            return  # already reported
        _verify_indexes(seen, entry, table, report)
        if deep:
            report.checked["rows"] += rows
            verify_rows(table, lambda check, message: report.wrong(check, message, branch, key))

    _run_guarded(report, branch, key, look)


def _verify_manifest(snapshot: Snapshot, report: Report, files: FileCheck) -> None:
    """Verify that the files of the manifest are intact and none of its versions is missing."""
    table = snapshot.manifest.table
    files.check(table, lambda found: report.add_damaged(found, snapshot, MANIFEST, None))
    for version in find_lost_versions(table.location):
        message = f"version {version} of the manifest was committed and is missing"
        report.wrong("lost_version", message, snapshot.branch)


def _verify_files(snapshot: Snapshot, entry: TableEntry, report: Report, files: FileCheck) -> None:
    table = open_table(snapshot.location(entry), entry.version)
    key = entry.table_key
    files.check(table, lambda found: report.add_damaged(found, snapshot, entry.path, key))
    for version in find_lost_versions(table.location):
        message = f"version {version} of {table.location} was committed and is missing"
        report.wrong("lost_version", message, snapshot.branch, key)


def _verify_head(snapshot: Snapshot, entry: TableEntry, report: Report, files: FileCheck) -> None:
    """Verify that an owned table is at the version the graph shows, unless a write is pending."""
    newest = open_newest(snapshot.location(entry))
    head = newest.version
    if head > entry.version:
        # Recovery of an interrupted write may publish it.
        path, key = entry.path, entry.table_key
        files.check(newest, lambda found: report.add_damaged(found, snapshot, path, key))
    message = f"the graph shows version {entry.version}, the newest is {head}"
    if head < entry.version:
        report.wrong("missing_version", message, snapshot.branch, entry.table_key)
    elif head > entry.version and not _is_moving(snapshot, entry):
        report.wrong("drift", message, snapshot.branch, entry.table_key)


def _is_moving(snapshot: Snapshot, entry: TableEntry) -> bool:
    """Return whether a writer is active: it announced the table, or has published since."""
    try:
        announced = any(
            table.path == entry.path
            for plan in list_pending_intents(snapshot.root.store)
            for table in plan.changes.moved
        )
    except OmniError:
        announced = False
    return announced or snapshot.manifest.table.newest_version() != snapshot.manifest_version


def _verify_indexes(seen: CatalogSnapshot, entry: TableEntry, table: Table, report: Report) -> None:
    """Verify that every index can be described; note rows it does not cover."""
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
    """Verify that every edge ends at existing nodes, as far as both can be read."""
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


def _note_orphans(root: GraphRoot, report: Report) -> None:
    """Note unreferenced tables and files: history, pending writes, or orphans."""
    shown: set[PhysicalTable] = {(path, branch) for path, branch, _ in report.tables}
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
            residue = [name for name in list_tree_names(location) if name not in forks]
        except OmniError as error:
            report.note("leftovers", error.message)
            continue
        if files:
            size = sum(file.size_bytes for file in files)
            report.note("unreferenced_files", f"{path} has {len(files)} of {size} bytes")
        for name in residue:
            report.note("zombie_branch", f"{path}/tree/{name} is not a branch")
        for name in forks:
            if path != MANIFEST and (path, name) not in shown:
                report.note(
                    "unreferenced_fork", f"{path}/tree/{name} is not referenced by any branch"
                )


def _run_guarded(
    report: Report, branch: str, table_key: str | None, look: Callable[[], None]
) -> None:
    """Record a read error as a finding, so that the rest is still verified."""
    try:
        look()
    except OmniError as error:
        report.wrong("unreadable", error.message, branch, table_key)
    except ValueError as error:  # values that are no text, or no array
        report.wrong("unreadable", str(error), branch, table_key)
