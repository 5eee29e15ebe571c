"""Looking at every commit that can still be read, and not only at what branches show now."""

from __future__ import annotations

from contextlib import suppress

from omnigraph.errors import BranchNotFound, HistoricalVersionReclaimed, OmniError
from omnigraph.identity import BranchName
from omnigraph.maintenance.verify_files import FileCheck
from omnigraph.maintenance.verify_report import Report
from omnigraph.maintenance.verify_schema import check_schema
from omnigraph.storage.layout import MANIFEST
from omnigraph.storage.manifest import TableEntry, read_manifest
from omnigraph.storage.refs import BranchRef, read_ref
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import open_table
from omnigraph.storage.tables.damage import DamagedFile
from omnigraph.storage.tables.remove_versions import list_versions
from omnigraph.writer.change import BranchReader


def verify_past(branches: BranchReader, name: str, report: Report, files: FileCheck) -> None:
    """Every manifest version of a branch folds, and what it shows opens and is all there."""
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
            _verify_manifest(snapshot, report, files)
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
    """Files of a manifest version that are gone, though no cleanup has removed them.

    One that a branch starts at loses its files to cleanup, and their checksums with them.
    """

    def complain(found: DamagedFile) -> None:
        if found.size is not None:
            message = f"manifest version {version}: {found.name} {found.problem}"
            report.wrong("missing_file", message, ref.name)

    with suppress(OmniError):  # cleaned away altogether
        files.check(open_table(root.manifest(ref.incarnation), version), complain)


def _verify_manifest(snapshot: Snapshot, report: Report, files: FileCheck) -> None:
    table = snapshot.manifest.table
    files.check(table, lambda found: report.add_damaged(found, snapshot, MANIFEST, None))


def _verify_entry(snapshot: Snapshot, entry: TableEntry, report: Report, files: FileCheck) -> None:
    place = (entry.path, entry.owner_branch, entry.version)
    if place in report.tables:
        return
    report.tables.add(place)
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
