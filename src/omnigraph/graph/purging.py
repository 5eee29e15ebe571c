"""Removing for good what a schema has dropped with consent.

The drop itself is a commit like any other, after which older states still show what was dropped.
Then fragments are written anew without the dropped columns, older states are cleaned away, and
tables of dropped types are deleted. Whoever is interrupted here applies the same schema again.
"""

from __future__ import annotations

from omnigraph.evolution.forget_columns import ForgetColumns
from omnigraph.evolution.schema_apply import PURGES
from omnigraph.maintenance.cleanup import run_cleanup
from omnigraph.maintenance.reachability import ReachabilityScan
from omnigraph.maintenance.retention import Retention
from omnigraph.storage.manifest import History
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.writer.driver import Writer

_NEWEST = Retention(keep=1)


def purge_dropped(writer: Writer, snapshot: Snapshot, actor: str | None) -> None:
    """Finish the drops of the newest change of the schema, if it was one with consent."""
    if not _is_due(snapshot):
        return
    root = snapshot.root
    writer.write(ForgetColumns(), branch=snapshot.branch, actor=actor)
    run_cleanup(root, _NEWEST)
    _delete_folders(root, snapshot)


def _is_due(snapshot: Snapshot) -> bool:
    for commit in History().commits(snapshot.manifest):
        recorded = commit.details.get("schema")
        if isinstance(recorded, dict):
            return PURGES in recorded
    return False


def _delete_folders(root: GraphRoot, snapshot: Snapshot) -> None:
    """Delete the tables of dropped types that nothing shows any more."""
    registrations = snapshot.state.registrations
    dropped = [registrations[identity].path for identity in snapshot.state.tombstones]
    with root.hold() as hold:
        shown = {path for path, _ in ReachabilityScan(root, _NEWEST).mark_remaining().pins}
        for path in dropped:
            if path not in shown and root.store.exists(path):
                hold.check()
                root.store.delete_prefix(path)
