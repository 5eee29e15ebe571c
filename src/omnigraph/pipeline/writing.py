"""The last stage of a load: files for its tables, and the transactions that will refer to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from uuid import uuid4

from omnigraph.execution.load_input import LoadMode
from omnigraph.identity import TableKey
from omnigraph.pipeline.checks import Sizes
from omnigraph.pipeline.kernels.write_kernel import (
    DeleteTask,
    WriteTask,
    Written,
    delete_rows,
    group_fragments,
    write_rows,
)
from omnigraph.pipeline.staging_area import Staged
from omnigraph.pipeline.tasks import Job, Tasks
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket, Writable, drop_fork, open_writable
from omnigraph.storage.tables import NO_DELETIONS, Deletions, StagedTransaction, stage_fragments


@dataclass(kw_only=True)
class _Output:
    """The files written for one table, and for which version of it."""

    entry: TableEntry
    writable: Writable
    fragments: tuple[str, ...]
    deletions: Deletions
    rows: int


class Outputs:
    """The files of a load, kept from one preparation to the next where they are still right."""

    def __init__(
        self, root: GraphRoot, tasks: Tasks, mode: LoadMode, sizes: Sizes, *, reusable: bool
    ) -> None:
        self._root, self._tasks, self._mode, self._sizes = root, tasks, mode, sizes
        self._reusable = reusable
        """True if every staged row is written, whatever the graph holds."""
        self._files: dict[TableKey, _Output] = {}

    def forget(self) -> None:
        self._files = {}

    @property
    def rows(self) -> dict[TableKey, int]:
        """Number of rows written for each table."""
        return {key: output.rows for key, output in self._files.items()}

    def write(
        self, snapshot: Snapshot, ticket: Ticket, staged: Mapping[TableKey, Staged], ir: str
    ) -> tuple[StagedTable, ...]:
        """One staged transaction for each table; a failure leaves no fork behind."""
        opened: dict[TableKey, Writable] = {}
        try:
            self._keep_valid(snapshot)
            for key in sorted(staged):
                if key not in self._files:
                    opened[key] = open_writable(snapshot, snapshot.entry(key))
            self._write_files(snapshot, staged, opened, ir)
            return tuple(self._stage_transactions(ticket, sorted(staged)))
        except BaseException:
            for key, writable in opened.items():
                self._files.pop(key, None)
                drop_fork(writable)
            raise

    def _keep_valid(self, snapshot: Snapshot) -> None:
        """Keep the files that are right for the snapshot too.

        Rows that were added are right for every version of a table; rows that replace others are
        right for one. A fork is given up together with the write it was made for, and which rows
        a load leaves out may depend on any table.
        """
        for key, output in list(self._files.items()):
            entry, old = snapshot.entry(key), output.entry
            is_same_table = (entry.path, entry.owner_branch) == (old.path, old.owner_branch)
            is_right = entry.version == old.version or self._mode is LoadMode.APPEND
            if output.writable.is_fork or not (self._reusable and is_same_table and is_right):
                del self._files[key]
            else:
                table = snapshot.open_entry(entry)
                output.entry, output.writable = entry, Writable(entry, table, is_fork=False)

    def _write_files(
        self,
        snapshot: Snapshot,
        staged: Mapping[TableKey, Staged],
        opened: Mapping[TableKey, Writable],
        ir: str,
    ) -> None:
        merges = self._mode is LoadMode.MERGE
        tasks = [
            WriteTask(
                table_key=key,
                staged=staged[key],
                fragments=group,
                target=writable.table,
            )
            for key, writable in opened.items()
            for group in group_fragments(staged[key].table, self._sizes.rows_per_task)
        ]
        jobs: list[Job[Any, Any, Written]] = [Job(write_rows, tasks, ir)]
        if merges:
            jobs.append(Job(delete_rows, _plan_deletions(staged, opened), None))
        written = list(chain.from_iterable(self._tasks.run_all(jobs, stage="write")))
        for key, writable in opened.items():
            mine = [one for one in written if one.table_key == key]
            self._files[key] = _Output(
                entry=snapshot.entry(key),
                writable=writable,
                fragments=tuple(text for one in mine for text in one.fragments),
                deletions=sum((one.deletions for one in mine), NO_DELETIONS),
                rows=sum(one.rows for one in mine),
            )

    def _stage_transactions(self, ticket: Ticket, keys: Sequence[TableKey]) -> list[StagedTable]:
        staged: list[StagedTable] = []
        for key in keys:
            output = self._files[key]
            transaction = self._stage_transaction(output, ticket)
            if transaction is None:
                drop_fork(output.writable)
            else:
                staged.append(StagedTable(output.writable, transaction))
        return staged

    def _stage_transaction(self, output: _Output, ticket: Ticket) -> StagedTransaction | None:
        return stage_fragments(
            output.writable.table,
            output.fragments,
            deletions=output.deletions,
            replaced=output.deletions.rows,
            replace_all=self._mode is LoadMode.OVERWRITE,
            uuid=str(uuid4()),
            properties=ticket.properties,
        )


def _plan_deletions(
    staged: Mapping[TableKey, Staged], opened: Mapping[TableKey, Writable]
) -> list[DeleteTask]:
    """Marks on the rows that are replaced, fragment by fragment."""
    return [
        DeleteTask(
            table_key=key,
            target=writable.table,
            fragments=(fragment,),
            row_outcomes=staged[key].row_outcomes,
        )
        for key, writable in opened.items()
        for fragment in staged[key].touched
    ]
