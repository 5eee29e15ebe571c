"""Commit a staged transaction as exactly the next version of its table, or not at all.

Lance has no exact commit: even without retries it rebases over transactions it holds compatible,
and after a cleanup it may accept a version below the newest. A commit therefore checks the newest
version first, and afterwards reads back which version it became.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from lance import LanceDataset, LanceOperation
from lance.dataset import Transaction

from omnigraph.errors import (
    AlreadyExists,
    OmniError,
    OutcomeUnknown,
    RecoveryRequired,
    RetryableCommitConflict,
    StorageFailure,
    StorageKind,
)
from omnigraph.storage.concurrent_calls import StartedCall, complete_now, read_boot_clock
from omnigraph.storage.tables.checksums import Checksum, record_checksums
from omnigraph.storage.tables.file_probes import is_version, name_version_file, report_native_write
from omnigraph.storage.tables.fragments import sum_complete_version
from omnigraph.storage.tables.lance_errors import (
    is_conflict,
    is_preempted,
    translate,
    translate_errors,
)
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import StagedTransaction
from omnigraph.storage.tables.table import Table, is_table, open_newest, open_table
from omnigraph.storage.tables.table_branches import read_record

SUSPEND_THRESHOLD_S = 5.0
"""A commit that took longer may have been overtaken unnoticed."""


@dataclass(frozen=True, slots=True)
class CommittedVersion:
    """The version that a transaction was committed as."""

    version: int
    table: Table = field(repr=False, compare=False)

    @property
    def row_count(self) -> int:
        """Count the rows; computed on demand, because a publish never needs it."""
        return self.table.count_rows()


def commit_exact(staged: StagedTransaction) -> CommittedVersion:
    """Commit a staged transaction as the version right after its base.

    Idempotent: committing one staged transaction twice returns the same version.

    Raises:
        RetryableCommitConflict: another writer committed first; nothing was written.
        AlreadyExists: likewise, for a table to be created.
        RecoveryRequired: it was committed at another version than planned.
        OutcomeUnknown: the commit may or may not have taken effect.
        StorageFailure: the commit failed; nothing was written.
    """
    return start_commit(staged, complete_now).finish()


@dataclass(frozen=True, slots=True)
class PendingCommit:
    """A commit in progress, whose outcome `finish` returns."""

    staged: StagedTransaction
    looked_at: float
    native: StartedCall[LanceDataset | Exception] | None
    """The call of Lance; None if another writer committed first and Lance was not called."""

    def finish(self) -> CommittedVersion:
        """Finish the commit; returns and raises as `commit_exact` does."""
        staged, native = self.staged, None if self.native is None else self.native.result()
        if native is None or isinstance(native, Exception):
            return _confirm_commit(staged, native)
        if native.version != staged.target_version:
            raise _make_landed_elsewhere_error(staged, native.version)
        if read_boot_clock() - self.looked_at > SUSPEND_THRESHOLD_S:
            _require_followed(staged)
        known = staged.base.columns if staged.base and staged.changes_only_rows else None
        return _verify_landed(staged, Table(staged.location, native, known))


def start_commit(
    staged: StagedTransaction,
    start: Callable[
        [Callable[[], LanceDataset | Exception]], StartedCall[LanceDataset | Exception]
    ],
) -> PendingCommit:
    """Start `commit_exact`; `start` runs the call of Lance, possibly in another thread.

    Everything else needs the interpreter lock, and would only slow both threads down.
    """
    looked_at = read_boot_clock()
    if _find_newest_version(staged) != staged.read_version:
        return PendingCommit(staged, looked_at, None)
    return PendingCommit(staged, looked_at, start(partial(_ask, staged)))


def _ask(staged: StagedTransaction) -> LanceDataset | Exception:
    try:
        with report_native_write("commit", staged.location):
            return LanceDataset.commit(
                staged.location.native_uri if staged.base is None else staged.base.native,
                staged.native,
                storage_options=staged.location.native_options,
                max_retries=0,
                enable_stable_row_ids=True if staged.base is None else None,
            )
    except Exception as error:  # noqa: BLE001 - whatever it says, what counts is what is there
        return error


def _require_followed(staged: StagedTransaction) -> None:
    """Raise if the committed version is not an ancestor of the newest one.

    A process suspended between check and commit may resume after others committed and cleanup
    removed the version that its commit would have conflicted with.
    """
    newest = open_newest(staged.location).version
    following = staged.target_version + 1
    if newest >= following and not is_version(staged.location, following):
        raise RetryableCommitConflict(
            f"{staged.location} moved from version {staged.read_version} to {newest}; retry"
        )


def restore(
    location: TableLocation,
    to_version: int,
    *,
    properties: Mapping[str, str],
) -> int:
    """Commit the content of an old version as a new one and return its number.

    A restore never conflicts: a concurrent commit is silently overwritten. Call it only where no
    other writer can be active.
    """
    newest = open_newest(location)
    open_table(location, to_version)
    operation, uuid = LanceOperation.Restore(to_version), str(uuid4())
    transaction = Transaction(newest.version, operation, uuid, {**properties})
    with (
        translate_errors(f"restoring {location} to version {to_version}"),
        report_native_write("restore", location),
    ):
        restored = LanceDataset.commit(
            newest.native, transaction, storage_options=location.native_options, max_retries=0
        )
    record_version(location, int(restored.version), newest.version, uuid)
    return int(restored.version)


def find_transaction(location: TableLocation, uuid: str, after: int) -> int | None:
    """Return the version after `after` that this transaction became, if any."""
    newest = open_newest(location)
    for version in range(after + 1, newest.version + 1):
        record = read_record(newest, version)
        if record.operation is None:
            raise StorageFailure(
                StorageKind.UNKNOWN, f"the history of {location} has a gap at version {version}"
            )
        if record.uuid == uuid:
            return version
    return None


def _find_newest_version(staged: StagedTransaction) -> int:
    if staged.base is not None:
        return staged.base.newest_version()
    return open_newest(staged.location).version if is_table(staged.location) else 0


def _confirm_commit(staged: StagedTransaction, error: Exception | None) -> CommittedVersion:
    """Determine the outcome of a commit that failed or conflicted."""
    landed, newest = None, staged.read_version
    try:
        newest = _find_newest_version(staged)
        if newest > staged.read_version:
            landed = find_transaction(staged.location, staged.uuid, staged.read_version)
    except OmniError as failure:
        # Cleanup may have removed the deciding versions, but a refusal is conclusive as well.
        if error is None or not is_preempted(error):
            raise OutcomeUnknown(
                f"commit {staged.uuid} to {staged.location}", str(failure)
            ) from error
    if landed == staged.target_version:
        return _verify_landed(staged, None)
    if landed is not None:
        raise _make_landed_elsewhere_error(staged, landed)
    raise _make_not_landed_error(staged, newest, error) from error


def _make_not_landed_error(
    staged: StagedTransaction, newest: int, error: Exception | None
) -> OmniError:
    if newest > staged.read_version or (error is not None and is_conflict(error)):
        if staged.base is None:
            return AlreadyExists(f"a table already exists at {staged.location}")
        return RetryableCommitConflict(
            f"{staged.location} moved from version {staged.read_version} to {newest}; retry"
        )
    assert error is not None
    failure = translate(error, f"committing to {staged.location}")
    may_still_land = {StorageKind.TRANSIENT, StorageKind.UNKNOWN}
    if isinstance(failure, StorageFailure) and failure.kind in may_still_land:
        return OutcomeUnknown(f"commit {staged.uuid} to {staged.location}", failure.message)
    return failure


def _verify_landed(staged: StagedTransaction, table: Table | None) -> CommittedVersion:
    """Read back the target version, which must be this transaction.

    `table` is the handle that the commit returned, if any. It knows its version without having read
    it: only the file of the version shows that it is complete and of this transaction.
    """
    if table is not None:
        summed = sum_complete_version(
            staged.location, staged.target_version, staged.uuid, staged.read_version
        )
        if summed is not None:
            _note(staged, summed)
            return CommittedVersion(table.version, table)
    try:
        table = table or open_table(staged.location, staged.target_version)
        record = read_record(table, table.version)
    except OmniError as failure:
        raise OutcomeUnknown(
            f"commit {staged.uuid} to {staged.location}", str(failure)
        ) from failure
    if record.uuid != staged.uuid or record.read_version != staged.read_version:
        raise RecoveryRequired(
            staged.uuid,
            f"version {table.version} of {staged.location} holds transaction {record.uuid} "
            f"based on version {record.read_version}",
        )
    _note(staged)
    return CommittedVersion(table.version, table)


def _note(staged: StagedTransaction, summed: Checksum | None = None) -> None:
    record_version(staged.location, staged.target_version, staged.read_version, staged.uuid, summed)


def _make_landed_elsewhere_error(staged: StagedTransaction, version: int) -> RecoveryRequired:
    return RecoveryRequired(
        staged.uuid,
        f"it was committed to {staged.location} as version {version} "
        f"instead of {staged.target_version}",
    )


def record_version(
    location: TableLocation,
    version: int,
    read_version: int,
    transaction: str,
    summed: Checksum | None = None,
) -> None:
    """Record the checksums of the file of a version just committed, and of its transaction.

    `summed` is that of the version file, if it was computed already.
    """
    folder = location.local_folder
    if folder is None:
        return
    transaction_file = f"_transactions/{read_version}-{transaction}.txn"
    if summed is None:
        record_checksums(folder, (name_version_file(version), transaction_file), version)
    else:
        record_checksums(folder, (transaction_file,), version, known=(summed,))
