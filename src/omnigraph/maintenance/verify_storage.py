"""Verify what is stored: checksums of table files, refs, records and other small files."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from omnigraph.errors import OmniError
from omnigraph.maintenance.maintenance_results import VerifyFinding
from omnigraph.settings import FenceMode
from omnigraph.storage.branch_requests import REQUEST_RECORDS
from omnigraph.storage.consumers import CONSUMER_RECORDS
from omnigraph.storage.graph_lifecycle import is_at_home, list_mirror_files
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import (
    ADDRESS,
    MANIFEST,
    ORPHAN_CANDIDATES,
    REFS,
)
from omnigraph.storage.local_fence import find_lock_damage
from omnigraph.storage.manifest import (
    CommitRecord,
    History,
    ManifestSnapshot,
    read_manifest,
    read_newest,
)
from omnigraph.storage.objects import StoreKind
from omnigraph.storage.orphans import find_candidates_damage
from omnigraph.storage.refs import (
    DELETION_MARKS,
    MAIN_REF,
    RELATION_MARKS,
    TAG_RECORDS,
    BranchRef,
    find_lost,
    find_ref,
    find_unnamed,
    list_names,
)
from omnigraph.storage.sealed_records import find_log_damage
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table, TableLocation, open_table
from omnigraph.storage.tables.checksums import LOG, ChecksumLogs, Damage
from omnigraph.storage.tables.file_integrity import (
    DamagedFile,
    Part,
    find_damaged,
    list_damaged_versions,
    require_branch_ref,
    small_file_problems,
    version_parts,
)
from omnigraph.storage.tables.missing_files import find_missing
from omnigraph.storage.tables.table_branches import LanceBranch, list_branches

TableVersion = tuple[str, str | None, int]
"""A table path, its physical branch and a version."""


@dataclass
class FileCheck:
    """Compares files with their checksums, each once; tables may be checked in parallel."""

    whole: bool
    """True to compare contents, not only lengths."""
    compared: int = 0
    unnoted: int = 0
    _logs: ChecksumLogs = field(default_factory=ChecksumLogs)
    _found: dict[str, list[DamagedFile]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, table: Table, complain: Callable[[DamagedFile], None]) -> None:
        """Report every damaged or missing file of a version.

        On an object store there are no checksums: a file can only be missing.
        """
        parts = version_parts(table.location, table.native)
        if table.location.local_folder is None:
            missing = {str(one) for one in find_missing([table])}
            gone = [part for part in parts if part.path in missing]
            for part in gone:
                complain(DamagedFile(part, part.name, Damage.MISSING))
            return
        for part in parts:
            for damaged in self._find_damaged(part):
                complain(damaged)

    def is_intact(self, table: Table) -> bool:
        """Return whether no file needed to read the rows is known to be damaged.

        Lance may abort the process over a damaged file, so its rows are not read.
        """
        if table.location.local_folder is None:
            return True
        parts = version_parts(table.location, table.native)
        return not any(one.is_read for part in parts for one in self._find_damaged(part))

    def _find_damaged(self, part: Part) -> list[DamagedFile]:
        known = self._found.get(part.path)
        if known is not None:
            return known
        damaged, is_noted = find_damaged(part, self._logs, whole=self.whole)
        with self._lock:
            if part.path not in self._found:
                self.compared += is_noted
                self.unnoted += not is_noted
            return self._found.setdefault(part.path, damaged)


class AffectedCommits:
    """Finds the commits that a damaged file affects."""

    def __init__(self, root: GraphRoot) -> None:
        self._root = root
        self._shown: dict[tuple[str | None, int], frozenset[TableVersion]] = {}
        self._files_of: dict[TableVersion, frozenset[str]] = {}
        self._lock = threading.Lock()

    def commits(self, snapshot: Snapshot, path: str, file: str) -> tuple[str, ...]:
        """Return the commits of a branch that show the file at `file` of the table at `path`."""
        with self._lock:
            try:
                history = History().commits(snapshot.manifest)
            except OmniError:
                return ()
            return tuple(c.commit_id for c in history if self._shows(c, path, file))

    def _shows(self, commit: CommitRecord, path: str, file: str) -> bool:
        key = (commit.incarnation, commit.manifest_version)
        if key not in self._shown:
            self._shown[key] = self._tables(*key)
        tables = [one for one in self._shown[key] if one[0] == path]
        return any(file in self._files(one) for one in tables)

    def _tables(self, branch: str | None, version: int) -> frozenset[TableVersion]:
        try:
            state = read_manifest(self._root.manifest(branch), version).state
        except OmniError:
            return frozenset()  # cleaned away, or damaged itself
        return frozenset((e.path, e.owner_branch, e.version) for e in state.entries.values())

    def _files(self, one: TableVersion) -> frozenset[str]:
        if one not in self._files_of:
            path, branch, version = one
            location = self._root.location(path, branch)
            try:
                native = open_table(location, version).native
                paths = {part.path for part in version_parts(location, native)}
            except OmniError:
                paths = set()
            self._files_of[one] = frozenset(paths)
        return self._files_of[one]


_SHOWN_COMMITS = 5


@dataclass
class Report:
    """The findings so far; tables are verified in parallel, and appending to lists is safe."""

    concerned: AffectedCommits
    findings: list[VerifyFinding] = field(default_factory=list)
    notes: list[VerifyFinding] = field(default_factory=list)
    checked: Counter[str] = field(default_factory=Counter)
    tables: set[tuple[str, str | None, int]] = field(default_factory=set)
    """Table versions that were verified on another branch."""
    looked: set[tuple[str, str | None, int]] = field(default_factory=set)
    dropped: dict[str, str] = field(default_factory=dict)
    """Tables of types that a branch has dropped, by path."""

    def add_damaged(
        self, found: DamagedFile, snapshot: Snapshot, path: str, table_key: str | None
    ) -> None:
        """Add a damaged file, with the rows and commits it affects."""
        file = found.path.removeprefix(f"{snapshot.root.uri}/")
        commits = self.concerned.commits(snapshot, path, found.part.path)
        shown = f"; commits: {', '.join(commits[:_SHOWN_COMMITS])}" if commits else ""
        more = f" and {len(commits) - _SHOWN_COMMITS} more" if len(commits) > _SHOWN_COMMITS else ""
        message = f"{file} {found.problem}; it says {found.part.content}{shown}{more}"
        check = "missing_file" if found.damage is Damage.MISSING else "damaged_file"
        self.findings.append(
            VerifyFinding(
                check, snapshot.branch, table_key, message, file, found.part.rows, commits
            )
        )

    def wrong(
        self, check: str, message: str, branch: str | None = None, table_key: str | None = None
    ) -> None:
        self.findings.append(VerifyFinding(check, branch, table_key, message))

    def note(
        self, check: str, message: str, branch: str | None = None, table_key: str | None = None
    ) -> None:
        self.notes.append(VerifyFinding(check, branch, table_key, message))

    def take(self, other: Report) -> None:
        """Add the findings of one branch."""
        self.findings += other.findings
        self.notes += other.notes
        self.checked += other.checked
        self.tables |= other.looked
        self.dropped |= other.dropped


_MAX_ATTEMPTS = 3
"""Attempts on problems that concurrent branch creation or deletion may explain."""


def verify_refs(root: GraphRoot, report: Report) -> None:
    """Verify that every branch record agrees with the ref of the manifest and with its parent.

    Records of tags and consumers must be readable: cleanup refuses while one is not.
    """
    for attempt in range(_MAX_ATTEMPTS):
        problems = list(_find_problems(root))
        if not problems or attempt + 1 == _MAX_ATTEMPTS:
            break
    for check, branch, message in problems:
        report.wrong(check, message, branch)
    for id in find_unnamed(root, _list_readable(root)):
        report.note(
            "unnamed_branch",
            f"no record names branch {id} of the manifest, and nothing was committed to it: "
            "creating it was interrupted, or its record is lost. Restore the record from a "
            "backup if you miss a branch; cleanup removes this one",
        )


def _find_problems(root: GraphRoot) -> list[tuple[str, str | None, str]]:
    found: list[tuple[str, str | None, str]] = []
    refs = _list_readable(root)
    newest = {ref.incarnation: one for ref in refs if (one := _newest(root, ref)) is not None}
    for path in (MANIFEST, *root.table_paths()):
        try:
            physical = list_branches(root.location(path))
        except OmniError as error:
            found.append(("branch_record", None, error.message))
            continue
        if path == MANIFEST:
            for ref in refs:
                found += [
                    ("branch_record", ref.name, m) for m in _compare_record(ref, refs, physical)
                ]
    for ref in refs:
        manifest = newest.get(ref.incarnation)
        if manifest is not None:
            found += [("missing_fork", ref.name, m) for m in _find_missing_forks(root, manifest)]
    found += [("tag_record", None, m) for m in TAG_RECORDS.find_damage(root.store)]
    found += [("consumer_record", None, m) for m in CONSUMER_RECORDS.find_damage(root.store)]
    found += [("lost_branch", one.name, str(one)) for one in find_lost(root, refs)]
    found += [("lost_version", None, message) for message in _find_lost_newest(refs, newest)]
    return found


def _list_readable(root: GraphRoot) -> list[BranchRef]:
    """Return the readable branch records; the others are reported with their branch."""
    refs = []
    for name in list_names(root.store):
        try:
            ref = find_ref(root.store, name)
        except OmniError:
            continue
        if ref is not None:
            refs.append(ref)
    return refs


def _newest(root: GraphRoot, ref: BranchRef) -> ManifestSnapshot | None:
    try:
        return read_newest(root.manifest(ref.incarnation))
    except OmniError:
        return None


def _compare_record(
    ref: BranchRef, refs: list[BranchRef], physical: Mapping[str, LanceBranch]
) -> list[str]:
    """Return the differences of a branch record from the manifest's ref and from its parent."""
    if ref.incarnation is None:
        return []
    known = physical.get(ref.incarnation)
    if known is None:
        return [f"the manifest has no branch {ref.incarnation}, which '{ref.name}' stands for"]
    problems = []
    if known.parent_branch != ref.parent_incarnation or known.parent_version != ref.fork_version:
        problems.append(
            f"its record says it starts at version {ref.fork_version} of {_quote(ref.parent)}, "
            f"the manifest at version {known.parent_version} of {known.parent_branch or 'main'}"
        )
    # By incarnation and not by name, which may be another branch by now.
    if all(one.incarnation != ref.parent_incarnation for one in refs):
        problems.append(f"it was made from {_quote(ref.parent)}, which does not exist")
    return problems


def _quote(name: str | None) -> str:
    return f"'{name}'"


def _find_missing_forks(root: GraphRoot, manifest: ManifestSnapshot) -> list[str]:
    """Return the forks that a branch shows and that its tables lack."""
    tables = {(MANIFEST, manifest.location.branch)} | {
        (entry.path, entry.owner_branch) for entry in manifest.state.entries.values()
    }
    problems, logs = [], ChecksumLogs()
    for path, branch in sorted(tables, key=str):
        if branch is not None:
            try:
                require_branch_ref(root.location(path), branch, logs)
            except OmniError as error:
                problems.append(error.message)
    return problems


def _find_lost_newest(
    refs: list[BranchRef], newest: Mapping[str | None, ManifestSnapshot]
) -> list[str]:
    """Return known manifest versions that are newer than the newest existing one."""
    names = {ref.incarnation: ref.name for ref in refs}
    latest: dict[str | None, tuple[int, str]] = {}

    def take(incarnation: str | None, version: int, who: str) -> None:
        if incarnation in newest and version > latest.get(incarnation, (0, ""))[0]:
            latest[incarnation] = (version, who)

    for ref in refs:
        if ref.incarnation is not None:
            take(ref.parent_incarnation, ref.fork_version, f"branch '{ref.name}' starts at it")
    for ref in refs:
        if ref.incarnation in newest:
            for commit in _commits(newest[ref.incarnation]):
                who = f"commit {commit.commit_id}, known on '{ref.name}', made it"
                take(commit.incarnation, commit.manifest_version, who)
    return [
        f"the newest manifest version of '{names[incarnation]}' is {newest[incarnation].version}, "
        f"but there was a version {version}: {who}"
        for incarnation, (version, who) in latest.items()
        if version > newest[incarnation].table.newest_version()
    ]


def _commits(manifest: ManifestSnapshot) -> tuple[CommitRecord, ...]:
    try:
        return History().commits(manifest)
    except OmniError:
        return ()


def verify_small_files(root: GraphRoot, report: Report) -> None:
    _verify_mirror(root, report)
    _verify_orphan_candidates(root, report)
    _verify_address(root, report)
    _verify_marks(root, report)
    _verify_requests(root, report)
    if root.store.kind is not StoreKind.LOCAL:
        return
    _verify_locks(root, report)
    for path in (MANIFEST, *root.table_paths()):
        try:
            location = root.location(path)
            for branch in (None, *list_branches(location)):
                _verify_version_files(location.on_branch(branch), report)
        except OmniError:
            continue  # reported where the table is verified


def verify_unshown_versions(root: GraphRoot, report: Report, *, whole: bool) -> None:
    """Note damaged files of versions that no commit shows, such as the start of a fork.

    They affect no query, so they are notes. Call last: files of commits are reported before.
    """
    reported = {finding.file for finding in report.findings}
    for path in (MANIFEST, *root.table_paths()):
        try:
            location = root.location(path)
            branches = (None, *list_branches(location))
        except OmniError:
            continue  # reported where the table is verified
        for branch in branches:
            for uri, problem in list_damaged_versions(location.on_branch(branch), whole=whole):
                file = uri.removeprefix(f"{root.uri}/")
                if file not in reported:
                    report.note("unshown_version", f"{file} {problem}; no commit shows it")


def _verify_mirror(root: GraphRoot, report: Report) -> None:
    """Verify that the schema files match the manifest; opening the graph to write rewrites them."""
    try:
        contract = Snapshot(root, MAIN_REF, read_newest(root.manifest())).contract
        wrong = [
            p for p, text in list_mirror_files(contract) if root.store.find(p) != text.encode()
        ]
    except OmniError:
        return  # the branch says so itself
    for path in wrong:
        report.note("schema_mirror", f"{path} is not the schema of the graph")


def _verify_orphan_candidates(root: GraphRoot, report: Report) -> None:
    """Verify the list of orphan candidates; damage delays their removal."""
    problem = find_candidates_damage(root.store)
    if problem is not None:
        report.note("unreferenced_list", f"{ORPHAN_CANDIDATES} {problem}")


def _verify_address(root: GraphRoot, report: Report) -> None:
    """Verify the recorded address of the graph; a moved or copied graph has another."""
    if not is_at_home(root):
        report.note(
            "address", f"{ADDRESS} is not the address of the graph; the next writer rewrites it"
        )


def _verify_marks(root: GraphRoot, report: Report) -> None:
    """Verify branch marks and the record log; a lost mark costs a scan of every record."""
    for marks in (DELETION_MARKS, RELATION_MARKS):
        for message in marks.find_damage(root.store):
            report.note("branch_mark", message)
    problem = find_log_damage(root.store)
    if problem is not None and find_log_damage(root.store) == problem:
        report.note("record_log", f"{REFS}/{LOG} {problem}; the next cleanup rewrites it")


def _verify_requests(root: GraphRoot, report: Report) -> None:
    """Verify request records; without one a repeated request is not recognised."""
    for message in REQUEST_RECORDS.find_damage(root.store):
        report.note("request_record", message)


def _verify_locks(root: GraphRoot, report: Report) -> None:
    """Verify lock files; only the lock itself counts, and the next writer rewrites its file."""
    if root.settings.writer_fence is FenceMode.OFF:
        return
    damaged = find_lock_damage(root.store)
    again = find_lock_damage(root.store) if damaged else {}  # a writer may be changing it
    for name, problem in damaged.items():
        if again.get(name) == problem:
            report.note("lock_file", f"{name} {problem}")


def _verify_version_files(location: TableLocation, report: Report) -> None:
    """Verify the version note and the checksum log; a writer may be changing them."""
    for check, message in small_file_problems(location):
        if (check, message) in small_file_problems(location):
            report.note(check, message)
