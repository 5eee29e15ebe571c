"""Faults planted into the code, to check that a simulated run finds them.

Each removes one safeguard. A simulation that finds none of these would find nothing else either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from omnigraph.maintenance import orphan_removal, retention
from omnigraph.storage import lease_fence, orphans, transaction
from omnigraph.storage.recovery import recover_writes, recovery_decision
from omnigraph.storage.tables import manifest_table, stage_table


def _nothing(*_: object, **__: object) -> None:
    """Do nothing, in place of a safeguard."""


def _skip_proof_of_files() -> None:
    """A write does not check that its staged files still exist."""
    transaction._require_files = _nothing


def _trust_the_clock() -> None:
    """Cleanup removes old orphan candidates by its own clock, despite heartbeats."""

    def is_due(self: Any, path: str, wait_us: int, _: frozenset[str]) -> bool:
        first = self._before.get(path)
        self._after[path] = first or orphans.OrphanCandidate(self._clock_us())
        return first is not None and self._clock_us() - first.at_us >= wait_us

    orphans.OrphanCandidates._is_due = is_due
    transaction.list_removable_paths = lambda *_: frozenset()
    transaction.find_missing_staged = _nothing


def _remove_at_first_sight() -> None:
    """Cleanup removes an orphan candidate at once."""
    orphans.OrphanCandidates._is_due = lambda *_: True


def _write_no_intents() -> None:
    """A write commits its tables without an intent."""
    transaction.write_intent = _nothing


def _recover_nothing() -> None:
    """A writer continues without recovering an interrupted write."""
    transaction.resolve_all = _nothing


def _finish_half_writes() -> None:
    """Recovery publishes a write with only some of its effects."""
    decide = recovery_decision.decide

    def decide_boldly(
        classes: Sequence[recovery_decision.TableClass], outlook: recovery_decision.IntentStatus
    ) -> recovery_decision.RecoveryVerdict:
        verdict = decide(classes, outlook)
        if recovery_decision.TableClass.COMPLETE not in classes:
            return verdict
        if verdict.decision is not recovery_decision.RecoveryDecision.ROLL_BACK:
            return verdict
        return recovery_decision.RecoveryVerdict(
            recovery_decision.RecoveryDecision.FINISH_PUBLISHED, "as planned"
        )

    recover_writes.decide = decide_boldly


def _keep_no_forks() -> None:
    """Cleanup knows of no branch but main."""
    retention.ReachabilityScan._list_refs = lambda _: (recover_writes.MAIN_REF,)
    retention.require_none_lost = _nothing


def _never_check_the_lease() -> None:
    """A holder continues after it lost its lease, and so do writes that name no fragment."""
    lease_fence.LeaseGuard.check = _nothing
    transaction.require_unmoved = lambda snapshot, _=None: snapshot.manifest


def _name_no_fragment() -> None:
    """Two writers of one version do not conflict, and the result is not checked."""

    def update_loosely(table: Any, **given: Any) -> Any:
        return stage_table.LanceOperation.Update(
            removed_fragment_ids=given["removed_ids"],
            updated_fragments=given["updated"],
            new_fragments=given["added"],
        )

    stage_table.make_strict_update = update_loosely


def _start_at_what_goes() -> None:
    """A branch may start at a version that a cleanup is about to remove."""
    orphans._require_unlisted = _nothing


def _name_no_anchor() -> None:
    """A publish is compared only with the state fragment that it replaces."""
    update = manifest_table.make_strict_update

    def update_without_anchor(table: Any, **given: Any) -> Any:
        return replace(update(table, **given), updated_fragments=given["updated"])

    manifest_table.make_strict_update = update_without_anchor


def _forget_that_the_manifest_stands_still() -> None:
    """Cleanup removes the file of a publish that its writer may still make visible."""
    orphan_removal.OrphanRemoval._list_possible_bases = lambda *_: []


def _write_intents_of_tables_alone() -> None:
    """A new table gets no intent where the fence may be lost."""
    transaction._is_announced = lambda request: bool(request.staged)


PLANTED: dict[str, Callable[[], None]] = {
    "skip_proof_of_files": _skip_proof_of_files,
    "trust_the_clock": _trust_the_clock,
    "remove_at_first_sight": _remove_at_first_sight,
    "write_no_intents": _write_no_intents,
    "recover_nothing": _recover_nothing,
    "finish_half_writes": _finish_half_writes,
    "keep_no_forks": _keep_no_forks,
    "never_check_the_lease": _never_check_the_lease,
    "name_no_fragment": _name_no_fragment,
    "start_at_what_goes": _start_at_what_goes,
    "name_no_anchor": _name_no_anchor,
    "forget_that_the_manifest_stands_still": _forget_that_the_manifest_stands_still,
    "write_intents_of_tables_alone": _write_intents_of_tables_alone,
}
