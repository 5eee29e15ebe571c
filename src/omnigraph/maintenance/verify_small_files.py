"""Looking at the small files beside the tables.

None of them is authority: whoever writes next puts them right, and a wrong one costs time at most.
So what is wrong with one is a note.
"""

from __future__ import annotations

from omnigraph.errors import OmniError
from omnigraph.maintenance.verify_report import Report
from omnigraph.settings import FenceMode
from omnigraph.storage.fence.lock_record import find_lock_damage
from omnigraph.storage.first_seen import find_list_damage
from omnigraph.storage.initialize import list_mirror_files
from omnigraph.storage.layout import ADDRESS, MANIFEST, REFS, RELATED, REQUESTS, SIGHTINGS
from omnigraph.storage.lost_branches import find_damaged_marks as find_damaged_deletion_marks
from omnigraph.storage.manifest import read_newest
from omnigraph.storage.objects import StoreKind
from omnigraph.storage.record_log import find_log_damage, list_lost_records
from omnigraph.storage.refs import MAIN_REF
from omnigraph.storage.related_branches import find_damaged_marks
from omnigraph.storage.relocate import is_at_home
from omnigraph.storage.request_records import REQUEST_RECORDS
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import TableLocation
from omnigraph.storage.tables.checksums import LOG
from omnigraph.storage.tables.damage import list_damaged_versions, small_file_problems
from omnigraph.storage.tables.lance_branches import list_branches


def verify_small_files(root: GraphRoot, report: Report) -> None:
    _verify_mirror(root, report)
    _verify_sightings(root, report)
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
                _verify_notes(location.on_branch(branch), report)
        except OmniError:
            continue  # what is wrong with the table is said where it is looked at


def verify_unshown_versions(root: GraphRoot, report: Report, *, whole: bool) -> None:
    """Files of versions that no commit shows, such as the one a fork starts at.

    They cost nobody an answer, so they are notes. To be called last: what a commit shows is told.
    """
    told = {finding.file for finding in report.findings}
    for path in (MANIFEST, *root.table_paths()):
        try:
            location = root.location(path)
            branches = (None, *list_branches(location))
        except OmniError:
            continue  # what is wrong with the table is said where it is looked at
        for branch in branches:
            for place, problem in list_damaged_versions(location.on_branch(branch), whole=whole):
                file = place.removeprefix(f"{root.uri}/")
                if file not in told:
                    report.note("unshown_version", f"{file} {problem}; no commit shows it")


def _verify_mirror(root: GraphRoot, report: Report) -> None:
    """The schema files say what the manifest says; opening the graph to write rewrites them."""
    try:
        contract = Snapshot(root, MAIN_REF, read_newest(root.manifest())).contract
        wrong = [
            p for p, text in list_mirror_files(contract) if root.store.find(p) != text.encode()
        ]
    except OmniError:
        return  # the branch says so itself
    for path in wrong:
        report.note("schema_mirror", f"{path} is not the schema of the graph")


def _verify_sightings(root: GraphRoot, report: Report) -> None:
    """Damaged, it delays what cleanup removes."""
    problem = find_list_damage(root.store)
    if problem is not None:
        report.note("unreferenced_list", f"{SIGHTINGS} {problem}")


def _verify_address(root: GraphRoot, report: Report) -> None:
    """A graph that was moved or copied has another; so has one whose note is damaged."""
    if not is_at_home(root):
        report.note(
            "address", f"{ADDRESS} does not say where the graph is; the next writer goes over it"
        )


def _verify_marks(root: GraphRoot, report: Report) -> None:
    """A mark counts by being there; where one is lost, every record is asked."""
    for path in (*find_damaged_deletion_marks(root.store), *find_damaged_marks(root.store)):
        report.note("branch_mark", f"{path} is not what was written")
    for path in list_lost_records(root.store, RELATED):
        report.note("branch_mark", f"{path} is gone, and nobody removed it")
    problem = find_log_damage(root.store)
    if problem is not None and find_log_damage(root.store) == problem:
        report.note("record_log", f"{REFS}/{LOG} {problem}; the next cleanup makes it whole")


def _verify_requests(root: GraphRoot, report: Report) -> None:
    """Without its record a request is not recognised when it is sent again."""
    for message in REQUEST_RECORDS.find_damage(root.store):
        report.note("request_record", message)
    for path in list_lost_records(root.store, REQUESTS):
        report.note("request_record", f"{path} is gone, and nobody removed it")


def _verify_locks(root: GraphRoot, report: Report) -> None:
    """The lock counts and not what is written in its file, which the next writer replaces."""
    if root.settings.writer_fence is FenceMode.OFF:
        return
    damaged = find_lock_damage(root.store)
    again = find_lock_damage(root.store) if damaged else {}  # a writer may be at it
    for name, problem in damaged.items():
        if again.get(name) == problem:
            report.note("lock_file", f"{name} {problem}")


def _verify_notes(location: TableLocation, report: Report) -> None:
    """The note of the newest version, and the log of checksums; a writer may be at them."""
    for check, message in small_file_problems(location):
        if (check, message) in small_file_problems(location):
            report.note(check, message)
