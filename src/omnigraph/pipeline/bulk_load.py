"""Load input in stages, to staged transactions that the graph commits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import msgspec

from omnigraph.catalog.catalog import Catalog
from omnigraph.constraints.table_changes import REPORTED
from omnigraph.errors import RowProblem, RowsRejected
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.execution.stored_rows import refuse_address
from omnigraph.identity import TableKey
from omnigraph.pipeline.check_stages import SIZES, Checks, Sizes
from omnigraph.pipeline.kernels.write_kernel import (
    DeleteTask,
    FillTask,
    LocatedProblem,
    WriteTask,
    Written,
    delete_rows,
    fill_rows,
    group_fragments,
    write_rows,
)
from omnigraph.pipeline.load_report import (
    SkippedInput,
    list_first_problems,
    list_mismatches,
    list_repeated_keys,
    list_taken_ids,
    raise_repeated,
    raise_taken,
    raise_unreadable,
    write_rejects,
)
from omnigraph.pipeline.load_report import make_problem as violation_problem
from omnigraph.pipeline.load_stages import run_checks
from omnigraph.pipeline.staged_input import Source, StagedInput
from omnigraph.pipeline.staging_area import (
    REJECTS,
    ROW_OUTCOMES,
    Staged,
    build_staging_schema,
    commit_staging,
)
from omnigraph.pipeline.tasks import Job, Tasks
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.prepared_write import StagedTable, Ticket, Writable, drop_fork, open_writable
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    NO_DELETIONS,
    Deletions,
    StagedTransaction,
    Table,
    stage_fragments,
)
from omnigraph.wire.write_results import LoadResult, SkippedRows


class LoadJob:
    """One load: staged once, then prepared on a snapshot as often as needed."""

    def __init__(self, root: GraphRoot, tasks: Tasks, source: Source, options: LoadOptions) -> None:
        self._tasks, self._options, self._sizes = tasks, options, SIZES
        self._input = StagedInput(root, tasks, source, options, SIZES)
        self._began = time.monotonic()
        self._outputs = Outputs(root, tasks, options.mode, SIZES, reusable=not options.skips)
        self._skipped = SkippedInput()
        self._skipped_of_type: Counter[TableKey] = Counter()
        """Number of readable rows of each type that were skipped."""
        self._rejects: Table | None = None

    def close(self) -> None:
        """Remove the staged rows."""
        self._input.close()

    @property
    def counts(self) -> Mapping[TableKey, int]:
        """Number of records of each type that were loaded."""
        counts: Counter[TableKey] = Counter()
        for split in self._input.splits:
            counts.update({key: one.rows for key, one in split.tables.items()})
        counts.subtract(self._skipped_of_type)
        return {key: counts[key] for key in sorted(counts) if counts[key]}

    def report(self, result: LoadResult) -> LoadResult:
        """Add the rows read and skipped, and the duration of each stage, to a result."""
        rows, seconds = sum(self.counts.values()), time.monotonic() - self._began
        return msgspec.structs.replace(
            result,
            engine=self._tasks.engine,
            measured_app_id=self._tasks.application,
            measured_stages=tuple(stage.wire() for stage in self._tasks.times),
            rows=rows,
            bytes=sum(split.bytes for split in self._input.splits),
            seconds=round(seconds, 3),
            measured_rate=round(rows / seconds, 1) if rows and seconds else None,
            skipped=SkippedRows(self._skipped.total, tuple(self._skipped.first)),
        )

    # --- reading ---------------------------------------------------------------------------------

    def prepare(
        self, snapshot: Snapshot, catalog: Catalog, ticket: Ticket
    ) -> tuple[StagedTable, ...]:
        """Stage one transaction for each table the load changes.

        Raises:
            RowsRejected: records cannot be read.
            ConstraintViolated: a rule of the schema is broken.
            KeyConflict: an id is stored already, or given twice.
        """
        if self._input.stage(snapshot, catalog):
            self._outputs.forget()
            self._rejects = None
        self._skipped = self._find_unreadable()
        staged = {key: one for key, one in self._input.tables.items() if one.rows}
        checks = Checks(
            tasks=self._tasks,
            area=self._input.area,
            ir=self._input.ir,
            catalog=catalog,
            options=self._options,
            snapshot=snapshot,
            source_map=self._input.source_map,
            minted=self._input.list_minted(),
            sizes=self._sizes,
            skipped=self._skipped,
            rejects=self._input.area.fresh("ruled-out")
            if self._options.rejects is not None
            else None,
        )
        stages = _StagedChecks(self._input, checks, staged)
        try:
            run_checks(stages)
        finally:
            self._write_rejects(checks)
        written = self._outputs.write(snapshot, ticket, stages.staged, self._input.ir)
        if self._options.skips:
            self._count_skipped(checks)
        return written

    # --- deciding --------------------------------------------------------------------------------

    def _find_unreadable(self) -> SkippedInput:
        """Raise for records that cannot be read, or record that they are skipped."""
        skipped = SkippedInput()
        if self._options.skips:
            skipped.add(list_first_problems(self._input.splits, self._input.source_map))
            return skipped
        try:
            raise_unreadable(self._input.splits, self._input.source_map)
        except RowsRejected:
            self._write_rejects()
            raise
        return skipped

    def _count_skipped(self, checks: Checks) -> None:
        """Count each row once that was neither written nor superseded by another."""
        written, skipped = self._outputs.rows, self._skipped_of_type
        skipped.clear()
        for key, one in self._input.tables.items():
            superseded = sum(found.superseded for found in checks.keys.get(key, ()))
            skipped[key] = one.rows - superseded - written.get(key, 0)
        unread = sum(split.problem_count for split in self._input.splits)
        mismatched = sum(split.mismatch_counts.total() for split in self._input.splits)
        self._skipped.total = unread + mismatched + skipped.total()

    def _write_rejects(self, checks: Checks | None = None) -> None:
        if self._options.rejects is None:
            return
        if self._rejects is None:
            self._rejects = self._input.commit_rejects()
        ruled = None
        if checks is not None and checks.rejects is not None:
            ruled = commit_staging(checks.rejects, REJECTS, checks.rejected)
        tables = [table for table in (self._rejects, ruled) if table is not None]
        write_rejects(self._options.rejects, tables, self._input.source_map)


@dataclass
class _StagedChecks:
    """The checks of staged rows, by tasks, and the rows that remain."""

    input: StagedInput
    checks: Checks
    staged: Mapping[TableKey, Staged]

    def check_ids(self) -> None:
        mismatched = (key for split in self.input.splits for key in split.mismatch_counts)
        touched = sorted({*self.staged, *mismatched})
        self.staged = self.checks.find_keys(self.staged)
        self._raise_or_skip(touched)
        if self.checks.options.partial:
            self.staged = self._fill()

    def check_rules(self) -> None:
        self.staged = self.checks.check(self.staged)

    def require_new_ids(self) -> None:
        if self.checks.options.skips:
            return
        for key in sorted(self.staged):
            addresses = (s.tables[key].address for s in self.input.splits if key in s.tables)
            address = next((one for one in addresses if one is not None), None)
            if not any(one.dropped for one in self.checks.keys[key]):
                refuse_address(address)
            raise_taken(key, self.checks.keys[key], self.input.source_map)

    def _raise_or_skip(self, touched: Sequence[TableKey]) -> None:
        given, keys = self.input, self.checks.keys
        if not self.checks.options.skips:
            raise_repeated(given.splits, keys, touched, given.source_map)
            return
        for key in touched:
            problems, _ = list_mismatches(given.splits, key, given.source_map)
            self.checks.skipped.add(problems)
            found = keys.get(key, ())
            repeated = [violation_problem(v) for v in list_repeated_keys(found, given.source_map)]
            self.checks.skipped.add([*repeated, *list_taken_ids(found, given.source_map)])

    def _fill(self) -> dict[TableKey, Staged]:
        """Complete partial records with the stored rows they replace."""
        checks, staged = self.checks, self.staged
        targets = {key: self.input.area.fresh("whole") for key in staged}
        drops = (
            {key: self.input.area.fresh("drops") for key in staged}
            if self.checks.options.skips
            else {}
        )
        tasks = [
            FillTask(
                table_key=key,
                staged=one,
                fragment=fragment.id,
                base=checks.base(key),
                target=targets[key],
                drop_to=drops.get(key),
            )
            for key, one in staged.items()
            for fragment in one.table.fragments()
        ]
        found = checks.tasks.run(fill_rows, tasks, self.input.ir, stage="fill")
        total = sum(one.problem_count for one in found)
        shown = [self._locate(p) for one in found for p in one.problems][:REPORTED]
        if total and not self.checks.options.skips:
            raise RowsRejected(shown, total)
        checks.skipped.add(shown)
        result = {}
        for key, one in staged.items():
            mine = [f for f in found if f.table_key == key]
            schema = build_staging_schema(checks.catalog.by_table_key[key])
            table = commit_staging(targets[key], schema, [t for f in mine for t in f.fragments])
            assert table is not None
            dropped = [text for f in mine for text in f.row_outcomes]
            row_outcomes = commit_staging(drops[key], ROW_OUTCOMES, dropped) if dropped else None
            result[key] = replace(one, table=table).with_row_outcomes(row_outcomes)
        return result

    def _locate(self, located: LocatedProblem) -> RowProblem:
        file, line = self.input.source_map.of(located.position)
        return msgspec.structs.replace(located.problem, file=file, line=line)


@dataclass(kw_only=True)
class _Output:
    """The files written for one table, and the version they are valid for."""

    entry: TableEntry
    writable: Writable
    fragments: tuple[str, ...]
    deletions: Deletions
    rows: int


class Outputs:
    """The files of a load, reused by the next preparation where they are still valid."""

    def __init__(
        self, root: GraphRoot, tasks: Tasks, mode: LoadMode, sizes: Sizes, *, reusable: bool
    ) -> None:
        self._root, self._tasks, self._mode, self._sizes = root, tasks, mode, sizes
        self._reusable = reusable
        """True if every staged row is written in any state of the graph."""
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
        """Write files and stage one transaction for each table; a failure leaves no fork behind."""
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
        """Keep the files that are valid for the snapshot.

        Rows that were added are valid for every version of a table; rows that replace others are
        valid for one. A fork is given up together with the write it was made for, and which rows
        a load skips may depend on any table.
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
            properties=ticket.properties,
        )


def _plan_deletions(
    staged: Mapping[TableKey, Staged], opened: Mapping[TableKey, Writable]
) -> list[DeleteTask]:
    """Plan the deletion marks on replaced rows, fragment by fragment."""
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
