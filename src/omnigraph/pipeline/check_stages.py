"""Check staged rows against each other and against stored rows.

The order of rules, and their messages, are those of every other write. Keys are divided
into buckets by a hash where they are too many for one task, so that its memory is
bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

from omnigraph.catalog.catalog import Catalog, ConstraintKind
from omnigraph.constraints.constraint_checks import list_ends, list_value_rules
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.identity import EntityKind, TableKey, make_table_key
from omnigraph.pipeline.input_splits import SPLIT_BYTES
from omnigraph.pipeline.kernels.constraint_kernel import (
    CardinalityTask,
    EndTask,
    UniqueTask,
    ValueTask,
    check_cardinality,
    check_ends,
    check_unique,
    check_values,
)
from omnigraph.pipeline.kernels.key_kernel import KeyFindings, KeySpec, KeyTask, check_keys
from omnigraph.pipeline.kernels.staged_row_reader import (
    Bucket,
    CountTask,
    RuleFindings,
    RuleSpec,
    count_rows,
)
from omnigraph.pipeline.kernels.write_kernel import group_fragments
from omnigraph.pipeline.load_report import Broken, SkippedInput, SourceMap, make_problem
from omnigraph.pipeline.staging_area import ROW_OUTCOMES, Staged, StagingArea, commit_staging
from omnigraph.pipeline.tasks import Job, Tasks
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table, TableLocation


@dataclass(frozen=True, slots=True)
class Sizes:
    """Limits by which work is divided into tasks."""

    keys_per_task: int = 4 << 20
    """Number of keys above which they are divided into buckets, to bound memory."""
    keys_worth_a_task: int = 1 << 18
    """Number of keys below which another task costs more than it saves."""
    rows_per_task: int = 1 << 20
    split_bytes: int = SPLIT_BYTES
    """Bytes of a file that one task reads, where the file can be divided."""


SIZES = Sizes()

RuleJob: TypeAlias = Job[RuleSpec, Any, list[RuleFindings]]
RuleRun: TypeAlias = Generator[RuleJob, list[list[RuleFindings]], None]
"""Check of a rule: yields its tasks, and is sent their findings."""


@dataclass(kw_only=True)
class Checks:
    """The checks of one load on one snapshot."""

    tasks: Tasks
    area: StagingArea
    ir: str
    catalog: Catalog
    options: LoadOptions
    snapshot: Snapshot
    source_map: SourceMap
    minted: frozenset[TableKey]
    """The types whose ids were all minted by the load, so that none can be stored."""
    sizes: Sizes = SIZES
    skipped: SkippedInput = field(default_factory=SkippedInput)
    rejects: TableLocation | None = None
    rejected: list[str] = field(default_factory=list)
    """Fragments written to the table of rejects."""
    keys: dict[TableKey, list[KeyFindings]] = field(default_factory=dict)
    dropped: Counter[TableKey] = field(default_factory=Counter)
    """Upper bound of dropped rows; one that breaks two rules counts twice."""

    def base(self, key: TableKey) -> Table | None:
        """Return the committed rows of a type, unless there are none."""
        entry = self.snapshot.entry(key)
        return self.snapshot.table(key) if entry.row_count else None

    def staying(self, key: TableKey, staged: Mapping[TableKey, Staged]) -> Table | None:
        """Return the committed rows of a type, unless the load replaces all of them."""
        replaced = self.options.mode is LoadMode.OVERWRITE and key in staged
        return None if replaced else self.base(key)

    # --- ids -------------------------------------------------------------------------------------

    def find_keys(self, staged: Mapping[TableKey, Staged]) -> dict[TableKey, Staged]:
        """Look up every id; return the staged rows with their outcomes."""
        locations = {key: self.area.fresh("outcomes") for key in staged}
        tasks = [
            KeyTask(
                table_key=key,
                staged=one,
                base=self.staying(key, staged),
                bucket=bucket,
                row_outcomes=locations[key],
            )
            for key, one in staged.items()
            if key not in self.minted
            for bucket in self._choose_buckets(one.rows)
        ]
        spec = KeySpec(ir=self.ir, options=self.options, rejects=self.rejects)
        found = self.tasks.run(check_keys, tasks, spec, stage="keys")
        result = dict(staged)
        self.keys = {key: [] for key in staged}
        for one in found:
            self.keys[one.table_key].append(one)
            self.dropped[one.table_key] += one.skipped + one.superseded
            self.rejected += one.rejects
        for key, findings in self.keys.items():
            texts = [text for one in findings for text in one.row_outcomes]
            row_outcomes = commit_staging(locations[key], ROW_OUTCOMES, texts)
            touched = tuple(sorted({fragment for one in findings for fragment in one.touched}))
            result[key] = replace(result[key], touched=touched).with_row_outcomes(row_outcomes)
        return result

    # --- rules -----------------------------------------------------------------------------------

    def check(self, staged: Mapping[TableKey, Staged]) -> dict[TableKey, Staged]:
        """Check every other rule; raise, or drop the rows that break one.

        The rules are independent as long as no row is dropped, so they are checked
        together; otherwise one after the other, each on the rows the ones before it kept.
        """
        broken = Broken(self.source_map)
        current = dict(staged)
        if self.options.skips:
            self._drop_rows(current, broken)
        else:
            # In the order in which what they find is reported.
            rules = (
                self._check_values,
                self._check_unique,
                self._check_ends,
                self._check_orphans,
                self._check_cardinality,
            )
            self._run_together([rule(current, broken) for rule in rules])
        broken.raise_if_any()
        return current

    def _drop_rows(self, staged: dict[TableKey, Staged], broken: Broken) -> None:
        """Drop rows until the others break no rule; what remains broken is not caused by them.

        A dropped row may have been about to replace another one, which is then retained and
        may break a rule itself; and it may leave a source with too few edges.
        """
        self._drop_by_rule(self._check_values, staged, broken)
        is_settled = False
        while not is_settled:
            helpless = Broken(self.source_map)
            dropped = self._drop_by_rule(self._check_unique, staged, broken)
            dropped += self._drop_by_rule(self._check_ends, staged, broken)
            edges = self._drop_by_rule(self._check_cardinality, staged, helpless)
            is_settled = not edges and not (dropped and self.options.mode is LoadMode.MERGE)
        self._run_one(self._check_orphans(staged, broken))
        broken.absorb(helpless)

    def _drop_by_rule(
        self,
        rule: Callable[[dict[TableKey, Staged], Broken], RuleRun],
        staged: dict[TableKey, Staged],
        broken: Broken,
    ) -> int:
        """Drop the rows that break a rule; return an upper bound of their number."""
        before = self.dropped.total()
        self._run_one(rule(staged, broken))
        if self.options.mode is LoadMode.OVERWRITE:
            self._forget_empty(staged)
        return self.dropped.total() - before

    def _forget_empty(self, staged: dict[TableKey, Staged]) -> None:
        """Leave out types of which no row remains: an overwrite would empty them."""
        doubtful = [key for key, one in staged.items() if self.dropped[key] >= one.rows]
        tasks = [CountTask(staged=staged[key]) for key in doubtful]
        counts = self.tasks.run(count_rows, tasks, None, stage="check")
        for key, count in zip(doubtful, counts, strict=True):
            if not count:
                del staged[key]

    def _run_together(self, rules: list[RuleRun]) -> None:
        jobs = [next(rule) for rule in rules]
        results = self.tasks.run_all(jobs, stage="check")
        for rule, found in zip(rules, results, strict=True):
            self._finish(rule, found)

    def _run_one(self, rule: RuleRun) -> None:
        self._finish(rule, self.tasks.run_all([next(rule)], stage="check")[0])

    def _finish(self, rule: RuleRun, found: list[list[RuleFindings]]) -> None:
        for findings in chain.from_iterable(found):
            self.rejected += findings.rejects
        with suppress(StopIteration):
            rule.send(found)

    @property
    def _spec(self) -> RuleSpec:
        return RuleSpec(ir=self.ir, rejects=self.rejects)

    def _check_values(self, staged: dict[TableKey, Staged], broken: Broken) -> RuleRun:
        ruled = [key for key in sorted(staged) if list_value_rules(self.catalog.by_table_key[key])]
        drops = self._locate_drops(ruled)
        tasks = [
            ValueTask(table_key=key, staged=staged[key], fragments=group, drop_to=drops.get(key))
            for key in ruled
            for group in self._group_rows(staged[key])
        ]
        found = yield Job(check_values, tasks, self._spec)
        for key in ruled:
            mine = [one for task, one in zip(tasks, found, strict=True) if task.table_key == key]
            for rule in range(len(list_value_rules(self.catalog.by_table_key[key]))):
                self._note(broken, [one[rule] for one in mine if one])
            self._drop(staged, key, drops, (one for ones in mine for one in ones))

    def _check_unique(self, staged: dict[TableKey, Staged], broken: Broken) -> RuleRun:
        ruled = [
            (key, index)
            for key in sorted(staged)
            for index, constraint in enumerate(self.catalog.by_table_key[key].constraints)
            if constraint.kind is ConstraintKind.UNIQUE
        ]
        drops = self._locate_drops([key for key, _ in ruled])
        tasks = [
            UniqueTask(
                table_key=key,
                constraint=index,
                staged=staged[key],
                base=self.staying(key, staged),
                bucket=bucket,
                drop_to=drops.get(key),
            )
            for key, index in ruled
            for bucket in self._choose_buckets(staged[key].rows)
        ]
        found = yield Job(check_unique, tasks, self._spec)
        for key, index in ruled:
            ones = [
                one
                for task, one in zip(tasks, found, strict=True)
                if (task.table_key, task.constraint) == (key, index)
            ]
            self._note(broken, [one[0] for one in ones])
            self._note(broken, [one[1] for one in ones])
        for key in dict.fromkeys(key for key, _ in ruled):
            mine = [ones for task, ones in zip(tasks, found, strict=True) if task.table_key == key]
            self._drop(staged, key, drops, (one for ones in mine for one in ones))

    def _check_ends(self, staged: dict[TableKey, Staged], broken: Broken) -> RuleRun:
        edges = [edge for edge in self.catalog.edges.values() if edge.table_key in staged]
        drops = self._locate_drops([edge.table_key for edge in edges])
        tasks = [
            EndTask(
                table_key=edge.table_key,
                end=end,
                node_table=nodes,
                nodes=staged.get(nodes),
                node_base=self.staying(nodes, staged),
                edges=staged[edge.table_key],
                edge_base=None,
                fragments=group,
                bucket=bucket,
                drop_to=drops.get(edge.table_key),
            )
            for edge in edges
            for end, nodes in list_ends(edge)
            for bucket in self._choose_memory_buckets(staged[nodes].rows if nodes in staged else 0)
            for group in self._group_rows(staged[edge.table_key], 4)
        ]
        found = yield Job(check_ends, tasks, self._spec)
        for edge in edges:
            for end in ("src", "dst"):
                self._note(broken, _read_findings(tasks, found, edge.table_key, end))
            mine = [f for t, f in zip(tasks, found, strict=True) if t.table_key == edge.table_key]
            self._drop(staged, edge.table_key, drops, chain.from_iterable(mine))

    def _check_orphans(self, staged: dict[TableKey, Staged], broken: Broken) -> RuleRun:
        """Find committed edges that are retained while the nodes at their ends are replaced."""
        tasks: list[EndTask] = []
        kept = [edge for edge in self.catalog.edges.values() if edge.table_key not in staged]
        for edge in kept if self.options.mode is LoadMode.OVERWRITE else ():
            base = self.base(edge.table_key)
            for end, nodes in list_ends(edge):
                if base is None or nodes not in staged:
                    continue
                for bucket in self._choose_memory_buckets(staged[nodes].rows):
                    for group in group_fragments(base, 4 * self.sizes.rows_per_task):
                        task = EndTask(
                            table_key=edge.table_key,
                            end=end,
                            node_table=nodes,
                            nodes=staged[nodes],
                            node_base=None,
                            edges=None,
                            edge_base=base,
                            fragments=group,
                            bucket=bucket,
                        )
                        tasks.append(task)
        found = yield Job(check_ends, tasks, self._spec)
        for edge in kept:
            for end in ("src", "dst"):
                broken.add(_read_findings(tasks, found, edge.table_key, end))

    def _check_cardinality(self, staged: dict[TableKey, Staged], broken: Broken) -> RuleRun:
        edges = [
            edge
            for edge in self.catalog.edges.values()
            if edge.table_key in staged and edge.has_cardinality
        ]
        drops = self._locate_drops([edge.table_key for edge in edges])
        tasks: list[CardinalityTask] = []
        for edge in edges:
            key, nodes = edge.table_key, make_table_key(EntityKind.NODE, edge.from_type)
            replaced = staged.get(nodes) if self.options.mode is LoadMode.OVERWRITE else None
            node_base = self.base(nodes) if replaced is not None else None
            for bucket in self._choose_buckets(staged[key].rows):
                task = CardinalityTask(
                    table_key=key,
                    mode=self.options.mode,
                    staged=staged[key],
                    base=self.base(key),
                    nodes=replaced,
                    node_base=node_base,
                    bucket=bucket,
                    drop_to=drops.get(key),
                )
                tasks.append(task)
        found = yield Job(check_cardinality, tasks, self._spec)
        for edge in edges:
            mine = [f for t, f in zip(tasks, found, strict=True) if t.table_key == edge.table_key]
            broken.add([sources for sources, _ in mine], by_source=True)
            surplus = [edges for _, edges in mine]
            self._note(broken, surplus)
            self._drop(staged, edge.table_key, drops, surplus)

    # --- dividing --------------------------------------------------------------------------------

    def _choose_buckets(self, rows: int) -> list[Bucket]:
        worth = max(1, rows // self.sizes.keys_worth_a_task)
        count = max(-(-rows // self.sizes.keys_per_task), min(self.tasks.parallelism, worth))
        return [Bucket(number, count) for number in range(max(1, count))]

    def _choose_memory_buckets(self, keys: int) -> list[Bucket]:
        count = max(1, -(-keys // (2 * self.sizes.keys_per_task)))
        return [Bucket(number, count) for number in range(count)]

    def _group_rows(self, staged: Staged, larger: int = 1) -> list[tuple[int, ...]]:
        rows = max(
            1, min(self.sizes.rows_per_task * larger, -(-staged.rows // self.tasks.parallelism))
        )
        return group_fragments(staged.table, max(rows, self.sizes.keys_worth_a_task))

    # --- skipping ---------------------------------------------------------------------------------

    def _locate_drops(self, keys: Iterable[TableKey]) -> dict[TableKey, TableLocation]:
        return {key: self.area.fresh("drops") for key in keys} if self.options.skips else {}

    def _note(self, broken: Broken, found: list[RuleFindings]) -> None:
        if not self.options.skips:
            broken.add(found)
            return
        self.skipped.add(map(make_problem, Broken(self.source_map).add(found)))

    def _drop(
        self,
        staged: dict[TableKey, Staged],
        key: TableKey,
        drops: Mapping[TableKey, TableLocation],
        found: Iterable[RuleFindings],
    ) -> None:
        if key not in drops:
            return
        every = list(found)
        texts = [text for one in every for text in one.row_outcomes]
        self.dropped[key] += sum(one.total for one in every)
        staged[key] = staged[key].with_row_outcomes(commit_staging(drops[key], ROW_OUTCOMES, texts))


def _read_findings(
    tasks: list[EndTask], found: list[list[RuleFindings]], key: TableKey, end: str
) -> list[RuleFindings]:
    return [
        one
        for task, ones in zip(tasks, found, strict=True)
        if (task.table_key, task.end) == (key, end)
        for one in ones
    ]
