"""Decide when maintenance is due, and run it in the background.

It runs the same optimize and cleanup as the commands, with one difference: it records no commit,
so that a write with an expected head does not fail because of it. A write that was
prepared before it is prepared again automatically.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from msgspec.structs import replace

from omnigraph.errors import OmniError
from omnigraph.identity import MAIN
from omnigraph.maintenance.cleanup import preview_cleanup, run_cleanup
from omnigraph.maintenance.maintenance_results import CleanupResult, OptimizeResult
from omnigraph.maintenance.optimize import OptimizeRequest, list_owned_entries, optimize
from omnigraph.maintenance.optimize_steps import list_stored_indexes
from omnigraph.maintenance.retention import Retention
from omnigraph.result import Result
from omnigraph.settings import AutopilotSettings
from omnigraph.storage.tables.compaction import plan_groups
from omnigraph.storage.tables.indices import describe_layout, plan_segment
from omnigraph.writer.change import BranchReader


class Due(Result, frozen=True, omit_defaults=False):
    """Reasons to optimize or clean up now; empty where there are none."""

    optimize: tuple[str, ...] = ()
    cleanup: tuple[str, ...] = ()

    @property
    def is_any(self) -> bool:
        return bool(self.optimize or self.cleanup)


class MaintainResult(Result, frozen=True, omit_defaults=False):
    """One run: the work due, its results, and the error that ended it."""

    due: Due
    optimized: OptimizeResult | None = None
    cleaned: CleanupResult | None = None
    error: str | None = None


def find_due_work(branches: BranchReader, policy: AutopilotSettings) -> Due:
    """Return the work the policy asks for, given the current `main`; change nothing."""
    return Due(
        tuple(_find_optimize_reasons(branches, policy)),
        tuple(_find_cleanup_reasons(branches, policy)),
    )


def _find_optimize_reasons(branches: BranchReader, policy: AutopilotSettings) -> Iterator[str]:
    seen = branches.read_newest(MAIN)
    for entry in list_owned_entries(seen.snapshot):
        layout, key = describe_layout(seen.snapshot.open_entry(entry)), entry.table_key
        mergeable = sum(len(group) for group in plan_groups(layout))
        if policy.fragments and mergeable >= policy.fragments:
            yield f"{key} has {mergeable} fragments that could be merged"
        rows_of = layout.rows_of
        for spec in list_stored_indexes(seen.catalog.by_table_key[key], entry.row_count):
            plan = plan_segment(layout, spec)
            rows = sum(rows_of[id] for id in plan.uncovered) if plan else 0
            if policy.unindexed_rows and rows >= policy.unindexed_rows:
                yield f"the index on {spec.column} of {key} does not cover {rows} rows"


def _find_cleanup_reasons(branches: BranchReader, policy: AutopilotSettings) -> Iterator[str]:
    if not (policy.versions or policy.bytes):
        return
    found = preview_cleanup(branches.root, make_retention(policy))
    for table in found.tables:
        if policy.versions and table.old_versions_removed >= policy.versions:
            yield f"{table.table_key} has {table.old_versions_removed} versions that nothing needs"
    size = sum(table.bytes_removed for table in found.tables)
    if policy.bytes and size >= policy.bytes:
        yield f"{size} bytes are unreferenced"


def make_retention(policy: AutopilotSettings) -> Retention:
    return Retention(policy.keep, policy.age_s)


def run_once(branches: BranchReader, policy: AutopilotSettings) -> MaintainResult:
    """Do the work due; errors are reported and the work is tried again next time."""
    done = MaintainResult(Due())
    try:
        done = replace(done, due=find_due_work(branches, policy))
        if done.due.optimize:
            request = OptimizeRequest(records_commit=False)
            done = replace(done, optimized=optimize(branches, request))
        if done.due.cleanup:
            done = replace(done, cleaned=run_cleanup(branches.root, make_retention(policy)))
    except OmniError as error:
        return replace(done, error=error.message)
    return done


class Autopilot:
    """Runs maintenance in the background after writes, one run at a time, at a minimum interval."""

    def __init__(
        self,
        branches: BranchReader,
        policy: AutopilotSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._branches, self._policy, self._clock = branches, policy, clock
        self._lock = threading.Lock()
        self._turn: threading.Thread | None = None
        self._last = clock() - policy.interval_s
        self.last_result: MaintainResult | None = None

    def wrote(self) -> None:
        """Start a run after a write, unless one is active or the last was too recent."""
        if not self._policy.enabled:
            return
        with self._lock:
            is_busy = self._turn is not None and self._turn.is_alive()
            if is_busy or self._clock() - self._last < self._policy.interval_s:
                return
            self._last = self._clock()
            # No daemon: at the end of the process it finishes what it has begun.
            self._turn = threading.Thread(target=self._take_turn, name="omnigraph-autopilot")
            self._turn.start()

    def _take_turn(self) -> None:
        self.last_result = run_once(self._branches, self._policy)

    def wait(self) -> None:
        """Return once the active run, if any, has ended."""
        turn = self._turn
        if turn is not None:
            turn.join()
