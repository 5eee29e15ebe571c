"""Rules over the rows of one type: single values, and tuples that must be unique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.constraints.keys import tuple_strings, unique_violations
from omnigraph.constraints.model import TableChange, column, without
from omnigraph.constraints.values import ruled_columns, value_rules
from omnigraph.identity import TableKey
from omnigraph.pipeline.kernels.reading import (
    Bucket,
    Findings,
    RuleSpec,
    address_of,
    drop_rows,
    findings,
    staged_among,
    staged_rows,
)
from omnigraph.pipeline.staging import AT, Staged, catalog_of
from omnigraph.storage.tables.handle import Table
from omnigraph.storage.tables.location import TableLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueTask:
    """Some fragments of the staged rows of one type."""

    table_key: TableKey
    staged: Staged
    fragments: tuple[int, ...]
    drop_to: TableLocation | None = None
    """Where to note the rows that break a rule, to leave them out."""


def check_values(spec: RuleSpec, task: ValueTask) -> list[Findings]:
    """What each rule of the type finds, in the order of the rules."""
    type_ = catalog_of(spec.ir).by_table_key[task.table_key]
    rows = staged_rows(task.staged, ["id", *ruled_columns(type_)], fragments=task.fragments)
    change = TableChange(type_, rows, positions=column(rows, AT))
    found = [list(rule(change)) for rule in value_rules(type_)] if rows.num_rows else []
    bad = {violation.position for violations in found for violation in violations}
    fates = drop_rows(task.drop_to, address_of(rows, bad)) if bad else ()
    results = [findings(one, spec.rejects) for one in found]
    if fates:
        results[0] = replace(results[0], fates=fates)
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


def check_unique(spec: RuleSpec, task: UniqueTask) -> list[Findings]:
    """Rows whose tuple another row of the input has, then those whose tuple is in the table."""
    type_ = catalog_of(spec.ir).by_table_key[task.table_key]
    constraint = type_.constraints[task.constraint]
    narrow = replace(type_, constraints=(constraint,))
    rows = staged_rows(
        task.staged,
        ["id", *constraint.columns],
        bucket=task.bucket,
        by=lambda rows: pc.fill_null(tuple_strings(type_, rows, constraint), ""),
    )
    change = TableChange(narrow, rows, replaces_all=True, positions=column(rows, AT))
    within = list(unique_violations(change, _Staying(task)))
    found = within
    if task.base is not None:
        found = list(unique_violations(replace(change, replaces_all=False), _Staying(task)))
    bad = {violation.position for violation in found}
    fates = drop_rows(task.drop_to, address_of(rows, bad)) if bad else ()
    against = found[len(within) :]
    return [
        findings(within, spec.rejects, fates),
        findings(against, spec.rejects),
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
        ids = column(found, "id")
        return found.filter(without(ids, staged_among(self._task.staged, ids)))
