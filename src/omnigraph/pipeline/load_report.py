"""Report the problems of a load: in order, with file and line, counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

import msgspec

from omnigraph.constraints.table_changes import REPORTED
from omnigraph.errors import (
    BadRequest,
    ConstraintViolated,
    KeyConflict,
    RowProblem,
    RowsRejected,
    Violation,
)
from omnigraph.errors.omni_error import render_both_positions
from omnigraph.identity import TableKey
from omnigraph.output_files import OutputFile
from omnigraph.pipeline.kernels.key_kernel import KeyFindings
from omnigraph.pipeline.kernels.stage_kernel import StagedSplit
from omnigraph.pipeline.kernels.staged_row_reader import RuleFindings
from omnigraph.pipeline.staging_area import split_and_line
from omnigraph.storage.tables import Table


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a split: its file, and whether it is the first split of it."""

    file: str | None = None
    is_start: bool = False


@dataclass(frozen=True)
class SourceMap:
    """Translation of positions in pieces of input to files and lines.

    The pieces of a file are adjacent and in order. A file that is given twice is read twice.
    """

    origins: Sequence[Origin]
    lines: Sequence[int]
    """Number of lines of each split."""
    _before: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        total = 0
        for origin, lines in zip(self.origins, self.lines, strict=True):
            total = 0 if origin.is_start else total
            self._before.append(total)
            total += lines

    def of(self, at: int) -> tuple[str | None, int]:
        split, line = split_and_line(at)
        return self.origins[split].file, self._before[split] + line

    def of_split(self, split: int, line: int | None) -> tuple[str | None, int | None]:
        return self.origins[split].file, None if line is None else self._before[split] + line

    def locate_problem(self, violation: Violation) -> Violation:
        """Add the file and line of its row to a violation, if the row is in the input."""
        if violation.position is None:
            return violation
        file, line = self.of(violation.position)
        message = violation.message
        if violation.other_position is not None:
            message += (
                f", in {render_both_positions(*self.of(violation.other_position), file, line)}"
            )
        return msgspec.structs.replace(
            violation, message=message, file=file, line=line, position=None, other_position=None
        )


@dataclass
class SkippedInput:
    """Rows that a load skipped because of problems."""

    total: int = 0
    """Number of rows."""
    first: list[RowProblem] = field(default_factory=list)
    """The first of them, each with its first problem."""
    _positions: set[tuple[str | None, int | None]] = field(default_factory=set)

    def add(self, problems: Iterable[RowProblem]) -> None:
        for problem in problems:
            position = (problem.file, problem.line)
            if len(self.first) < REPORTED and position not in self._positions:
                self.first.append(problem)
                self._positions.add(position)


@dataclass
class Broken:
    """Broken rules, collected rule by rule in the order of the report."""

    source_map: SourceMap
    total: int = 0
    first: list[Violation] = field(default_factory=list)

    def add(self, found: Iterable[RuleFindings], *, by_source: bool = False) -> list[Violation]:
        """Add the findings of the tasks of one rule; return the first violations."""
        found = list(found)
        total = sum(one.total for one in found)
        if not total:
            return []
        shown = [violation for one in found for violation in one.first]
        shown.sort(key=_group_by_source if by_source else _sort_by_position)
        self.total += total
        located = [self.source_map.locate_problem(violation) for violation in shown[:REPORTED]]
        self.first += located[: max(0, REPORTED - len(self.first))]
        return located

    def absorb(self, other: Broken) -> None:
        """Add the violations that were gathered separately."""
        self.total += other.total
        self.first += other.first[: max(0, REPORTED - len(self.first))]

    def raise_if_any(self) -> None:
        if self.total:
            raise ConstraintViolated(self.first, self.total)


def _sort_by_position(violation: Violation) -> tuple[int, str]:
    """Sort key: the order of the input; other rows by their ids."""
    if violation.position is None:
        return 0, violation.id or ""
    return violation.position, ""


def _group_by_source(violation: Violation) -> str:
    assert violation.source is not None, "only violations about the edges of a node are sorted so"
    return violation.source


def make_problem(violation: Violation) -> RowProblem:
    """Return a violation as the reason why a row was skipped."""
    return RowProblem(
        violation.message,
        str(violation.kind),
        violation.file,
        violation.line,
        violation.type_key,
        violation.id,
    )


def raise_unreadable(splits: Sequence[StagedSplit], source_map: SourceMap) -> None:
    """Raise with the first records that cannot be read, if there are any."""
    total = sum(split.problem_count for split in splits)
    if total:
        raise RowsRejected(list(list_first_problems(splits, source_map)), total)


def list_first_problems(splits: Sequence[StagedSplit], source_map: SourceMap) -> list[RowProblem]:
    found = [
        _locate_problem(problem, split.split, source_map)
        for split in splits
        for problem in split.problems
    ]
    return found[:REPORTED]


def _locate_problem(problem: RowProblem, split: int, source_map: SourceMap) -> RowProblem:
    file, line = source_map.of_split(split, problem.line)
    return msgspec.structs.replace(problem, file=file, line=line)


def list_mismatches(
    splits: Sequence[StagedSplit], key: TableKey, source_map: SourceMap
) -> tuple[list[RowProblem], int]:
    """List the records of a type whose id contradicts their key, and count them."""
    total = sum(split.mismatch_counts[key] for split in splits)
    found = [
        _locate_problem(problem, split.split, source_map)
        for split in splits
        for problem in split.mismatches.get(key, ())
    ]
    return found[:REPORTED], total


def raise_repeated(
    splits: Sequence[StagedSplit],
    keys: Mapping[TableKey, Sequence[KeyFindings]],
    touched: Sequence[TableKey],
    source_map: SourceMap,
) -> None:
    """Raise for the first type with repeated ids or keys."""
    for key in touched:
        problems, total = list_mismatches(splits, key, source_map)
        if total:
            raise RowsRejected(problems, total)
        found = keys.get(key, ())
        repeated = sum(one.repeated_keys for one in found)
        if repeated:
            raise ConstraintViolated(list_repeated_keys(found, source_map), repeated)
        conflicts = [one.repeated for one in found if one.repeated is not None]
        if conflicts:
            first = min(conflicts, key=lambda conflict: conflict.first_at)
            file, line = source_map.of(first.at)
            first_file, first_line = source_map.of(first.first_at)
            raise KeyConflict(key, first.id, line, file, first_line, first_file)


def list_repeated_keys(found: Sequence[KeyFindings], source_map: SourceMap) -> list[Violation]:
    shown = [violation for one in found for violation in one.violations]
    shown.sort(key=_sort_by_position)
    return [source_map.locate_problem(violation) for violation in shown[:REPORTED]]


def list_taken_ids(found: Sequence[KeyFindings], source_map: SourceMap) -> list[RowProblem]:
    """List existing ids as reasons why rows were skipped."""
    shown = [violation for one in found for violation in one.first_skipped]
    shown.sort(key=_sort_by_position)
    located = (source_map.locate_problem(violation) for violation in shown[:REPORTED])
    return [
        msgspec.structs.replace(make_problem(violation), code=KeyConflict.code)
        for violation in located
    ]


def raise_taken(key: TableKey, found: Sequence[KeyFindings], source_map: SourceMap) -> None:
    conflicts = [one.taken for one in found if one.taken is not None]
    if conflicts:
        first = min(conflicts, key=lambda conflict: conflict.first_at)
        file, line = source_map.of(first.at)
        raise KeyConflict(key, first.id, line, file)


def write_rejects(target: OutputFile, tables: Iterable[Table], source_map: SourceMap) -> int:
    """Write every refused record to a file of JSON lines; return their number.

    Raises:
        AlreadyExists: another process wrote the file since the load began.
    """
    encode = msgspec.json.Encoder().encode
    path = target.path
    partial = path.with_name(f".{path.name}.{uuid4().hex[:8]}")
    count = 0
    try:
        with partial.open("xb") as file:
            for line in _write_reject_lines(tables, source_map):
                file.write(encode(line) + b"\n")
                count += 1
        target.put(partial)
    except OSError as error:
        raise BadRequest(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def _write_reject_lines(
    tables: Iterable[Table], source_map: SourceMap
) -> Iterator[dict[str, object]]:
    for table in tables:
        for batch in table.batches():
            for row in batch.to_pylist():
                at = row.pop("at")
                file, line = (None, None) if at is None else source_map.of(at)
                yield {"file": file, "line": line, **row}
