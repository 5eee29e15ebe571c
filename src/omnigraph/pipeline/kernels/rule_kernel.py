"""Rules over the rows of one type: single values, and tuples that must be unique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.constraints.table_changes import TableChange, get_column, mask_remaining
from omnigraph.constraints.unique_keys import encode_tuples, find_unique_violations
from omnigraph.constraints.value_rules import list_ruled_columns, list_value_rules
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.staged_row_reader import (
    Bucket,
    RuleFindings,
    RuleSpec,
    compute_addresses,
    drop_rows,
    encode_findings,
    filter_staged,
    read_staged_rows,
)
from omnigraph.pipeline.staging_area import AT, Staged, decode_catalog_cached
from omnigraph.storage.tables import Table, TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTask:
    """Some fragments of the staged rows of one type."""

    table_key: TableKey
    staged: Staged
    fragments: tuple[int, ...]
    drop_to: TableLocation | None = None
    """Where to note the rows that break a rule, to leave them out."""


def check_values(spec: RuleSpec, task: ValueTask) -> list[RuleFindings]:
    """What each rule of the type finds, in the order of the rules."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    rows = read_staged_rows(
        task.staged, ["id", *list_ruled_columns(type_)], fragments=task.fragments
    )
    change = TableChange(type_, rows, positions=get_column(rows, AT))
    found = [list(rule(change)) for rule in list_value_rules(type_)] if rows.num_rows else []
    bad = {violation.position for violations in found for violation in violations}
    row_outcomes = drop_rows(task.drop_to, compute_addresses(rows, bad)) if bad else ()
    results = [encode_findings(one, spec.rejects) for one in found]
    if row_outcomes:
        results[0] = replace(results[0], row_outcomes=row_outcomes)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueTask:
    """The tuples of one unique constraint that fall into one bucket."""

    table_key: TableKey
    constraint: int
    """Its place among the constraints of the type."""
    staged: Staged
    base: Table | None
    bucket: Bucket
    drop_to: TableLocation | None = None


def check_unique(spec: RuleSpec, task: UniqueTask) -> list[RuleFindings]:
    """Rows whose tuple another row of the input has, then those whose tuple is in the table."""
    type_ = decode_catalog_cached(spec.ir).by_table_key[task.table_key]
    constraint = type_.constraints[task.constraint]
    narrow = replace(type_, constraints=(constraint,))
    rows = read_staged_rows(
        task.staged,
        ["id", *constraint.columns],
        bucket=task.bucket,
        by=lambda rows: pc.fill_null(encode_tuples(type_, rows, constraint), ""),
    )
    change = TableChange(narrow, rows, replaces_all=True, positions=get_column(rows, AT))
    within = list(find_unique_violations(change, _Staying(task)))
    found = within
    if task.base is not None:
        found = list(find_unique_violations(replace(change, replaces_all=False), _Staying(task)))
    bad = {violation.position for violation in found}
    row_outcomes = drop_rows(task.drop_to, compute_addresses(rows, bad)) if bad else ()
    against = found[len(within) :]
    return [
        encode_findings(within, spec.rejects, row_outcomes),
        encode_findings(against, spec.rejects),
    ]


class _Staying:
    """The committed rows of a type that the load does not replace."""

    def __init__(self, task: UniqueTask) -> None:
        self._task = task

    def find(self, table: TableKey, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        del table
        base = self._task.base
        assert base is not None, "a table that is replaced as a whole is not asked"
        found = base.lookup(by, values, list(columns))
        if not found.num_rows:
            return found
        ids = get_column(found, "id")
        return found.filter(mask_remaining(ids, filter_staged(self._task.staged, ids)))
