"""One simulated run: a few processes that write a graph, crash, are suspended and start again.

Everything is drawn from the seed. What is run is our own code from the write driver and cleanup
down to the tables; what it runs on is simulated.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import (
    BranchNotFound,
    FilesMissing,
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    OmniError,
    OutcomeUnknown,
    ReadSetChanged,
    RecoveryRequired,
    StorageFailure,
    StorageKind,
    UncoveredDrift,
    WriterBusy,
)
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.identity import (
    EntityKind,
    TableIdentity,
    TableIncarnationId,
    TableKey,
    TypeId,
    UlidSource,
)
from omnigraph.maintenance.cleanup import run_cleanup
from omnigraph.maintenance.retention import Retention
from omnigraph.settings import Settings
from omnigraph.storage import graph_branches
from omnigraph.storage import writer_fence as process_fence
from omnigraph.storage.consumers import set_consumer
from omnigraph.storage.graph_lifecycle import NewTable, initialize
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.lease_fence import LeaseTerms, open_fence
from omnigraph.storage.manifest import (
    History,
    ManifestState,
    SchemaContract,
    manifest_reader,
)
from omnigraph.storage.manifest.manifest_changes import Register, SchemaChange, SetVersion
from omnigraph.storage.prepared_write import (
    Merging,
    StagedTable,
    Ticket,
    Writable,
    create_table,
    drop_fork,
    open_writable,
)
from omnigraph.storage.recovery import list_operations, resolve_all
from omnigraph.storage.refs import create_tag, find_ref, list_names
from omnigraph.storage.tables import stage_changes
from omnigraph.storage.tables.manifest_table import compact_lineage
from omnigraph.storage.tables.table import open_newest
from omnigraph.storage.write_plan import WriterKind
from omnigraph.storage.writer_fence import make_fence_lost
from omnigraph.writer.change import CatalogSnapshot, Change, PlanContent, WriteOptions
from omnigraph.writer.driver import Writer
from simulation.expected_states import Fact, Journal, NeededFiles, State, Violation, Writing
from simulation.simulated_files import Files
from simulation.simulated_store import SimulatedStore
from simulation.simulated_time import enter_run, leave_run
from simulation.turns import DAY_US, UNTROUBLED, Crashed, Fate, Fault, Process, Turns

TABLES = tuple(TableKey(key) for key in ("node:Item", "node:Place", "edge:In"))
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("value", pa.int64())])
BRANCHES = ("a", "b")
NEVER = (ManifestCorrupt, FilesMissing, UncoveredDrift)
"""Errors that report a damaged graph, which no simulated process causes."""
UNCERTAIN = (OutcomeUnknown, RecoveryRequired)
"""Errors that report that the outcome of a write is unknown."""
SUSPENSIONS_S = (5.0, 25.0, 35.0, 120.0, 400.0, 2_000.0, 100_000.0)
CLOCKS_US = tuple(
    int(days * DAY_US) for days in (0, 0, 0, 0.001, -0.001, 1, -1, 3, -3, 10, -10, 10)
)


@dataclass(frozen=True, slots=True)
class Theme:
    """The theme of a run: the weights of its actions, and the probability of each event."""

    deeds: dict[str, int]
    trouble: float
    dying: float
    suspending: float
    failing: float
    pausing: float
    cleaners: int = 0
    has_troubled_cleaners: bool = False
    suspended_s: tuple[float, ...] = SUSPENSIONS_S
    suspended_by: int = 30
    """The last effect before which a process may be suspended."""
    suspended_at: tuple[str, ...] = ("",)
    """Prefixes of the effects, of which one is drawn; by default of all."""
    suspending_in_reads: float = 0.4
    """The share of suspensions before any step, and not before an effect."""
    graces_s: tuple[float, ...] = (60.0, 60.0, 3_600.0, 86_400.0)


MIXED = {
    "write": 10,
    "read": 3,
    "create_branch": 3,
    "delete_branch": 2,
    "rename_branch": 1,
    "clean": 3,
    "recover": 1,
    "tag": 1,
    "consume": 1,
    "mark": 2,
    "add_type": 1,
    "merge_history": 1,
}
THEMES = {
    "calm": Theme(MIXED, trouble=0.0, dying=0.0, suspending=0.0, failing=0.0, pausing=0.1),
    "mixed": Theme(MIXED, trouble=0.9, dying=0.7, suspending=0.4, failing=0.4, pausing=0.1),
    "crashes": Theme(MIXED, trouble=1.0, dying=1.0, suspending=0.1, failing=0.1, pausing=0.0),
    # Slow writers beside repeated cleanups.
    "cleaning": Theme(
        {"write": 8, "read": 1, "create_branch": 2, "mark": 2, "add_type": 2, "merge_history": 1},
        trouble=0.9,
        dying=0.1,
        suspending=0.9,
        failing=0.1,
        pausing=0.3,
        cleaners=1,
        suspended_s=(120.0, 400.0, 2_000.0),
        suspended_by=16,
        graces_s=(60.0,),
    ),
    # Writers that lose the fence to each other.
    "leases": Theme(
        {"write": 8, "read": 1, "recover": 1, "clean": 1},
        trouble=1.0,
        dying=0.2,
        suspending=0.9,
        failing=0.3,
        pausing=0.1,
    ),
    # Names that are created, deleted and renamed.
    "names": Theme(
        {"create_branch": 4, "delete_branch": 3, "rename_branch": 3, "write": 4, "clean": 1},
        trouble=0.8,
        dying=0.5,
        suspending=0.4,
        failing=0.3,
        pausing=0.1,
    ),
    # Old commits that get a name while a cleanup removes them.
    "past": Theme(
        {"write": 8, "read": 2, "create_branch": 2, "tag_old": 3, "consume": 3, "pull": 3},
        trouble=0.5,
        dying=0.1,
        suspending=1.0,
        failing=0.1,
        pausing=0.6,
        cleaners=2,
        has_troubled_cleaners=True,
        suspended_s=(35.0, 120.0, 400.0, 2_000.0),
        suspended_by=6,
        suspended_at=(
            "delete __manifest",
            "delete __manifest",
            "delete nodes",
            "put_if_absent __manifest",
        ),
        graces_s=(60.0,),
    ),
    # Processes that act on what they read before others wrote and cleaned up.
    "looks": Theme(
        {
            "write": 6,
            "read": 2,
            "create_branch": 1,
            "pull": 2,
            "recover": 1,
            "mark": 2,
            "add_type": 2,
            "merge_history": 2,
        },
        trouble=0.7,
        dying=0.1,
        suspending=1.0,
        failing=0.1,
        pausing=0.4,
        cleaners=2,
        has_troubled_cleaners=True,
        suspended_s=(35.0, 120.0, 400.0, 2_000.0),
        suspended_by=8,
        suspended_at=("list __manifest", "list __manifest", "find __manifest", "find nodes", ""),
        suspending_in_reads=1.0,
        graces_s=(60.0,),
    ),
}


class PlainSnapshots(BranchSnapshots):
    """Branches of a graph whose schema is never requested."""

    def _decode_catalog(self, state: ManifestState) -> Catalog:
        del state
        no_catalog: Any = None
        return no_catalog


@dataclass
class LockFence:
    """A lock of the kernel: it is free as soon as its holder is dead."""

    turns: Turns
    spans_processes = True
    holder: Process | None = None
    epoch: int = 0

    def acquire(self, wait_s: float) -> LockGuard:
        turns = self.turns
        turns.look("lock")
        if not turns.wait(self._is_free, wait_s):
            raise WriterBusy("another process", wait_s)
        took_over = self.holder is not None
        self.holder, self.epoch = turns.process, self.epoch + 1
        return LockGuard(self, self.epoch, took_over)

    def _is_free(self) -> bool:
        return self.holder is None or self.holder.is_dead


@dataclass
class LockGuard:
    fence: LockFence
    epoch: int
    took_over: bool

    def check(self) -> None:
        if self.fence.epoch != self.epoch or self.fence.holder is None:
            raise make_fence_lost(self.epoch, "a released guard")

    def release(self) -> None:
        if self.fence.epoch == self.epoch and not self.fence.turns.process.is_dead:
            self.fence.holder = None

    def __enter__(self) -> LockGuard:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@dataclass
class OpenGraph:
    """A graph opened by one process, with all that this process caches."""

    root: GraphRoot
    views: PlainSnapshots
    writer: Writer
    seen: list[CatalogSnapshot] = field(default_factory=list)
    """Snapshots it has read: branches may be created from them later."""


@dataclass
class PutRows:
    """A write of rows, as a change for the driver."""

    writing: Writing
    kind = WriterKind.MUTATION

    @property
    def is_costly(self) -> bool:
        return self.writing.is_costly

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        opened: list[Writable] = []
        staged: list[StagedTable] = []
        try:
            for key, rows in self.writing.puts.items():
                entry = view.snapshot.entry(TableKey(key))
                writable = open_writable(view.snapshot, entry)
                opened.append(writable)
                removed = self.writing.removes.get(key)
                transaction = stage_changes(
                    writable.table,
                    pa.table({"id": list(rows), "value": pa.array(rows.values(), pa.int64())}),
                    pa.array(removed, pa.string()) if removed else None,
                    properties=ticket.properties,
                    table_key=key,
                )
                assert transaction is not None, "a row is put"
                staged.append(StagedTable(writable, transaction))
        except BaseException:
            for writable in opened:
                drop_fork(writable)
            raise
        return PlanContent(tuple(staged), origin=self.writing.name)

    def may_retry(self, cause: ReadSetChanged) -> bool:
        del cause
        return True


@dataclass
class Pull:
    """A change that adopts inherited tables at the versions of another branch."""

    fact: Fact
    source: CatalogSnapshot
    kind = WriterKind.BRANCH_MERGE
    is_costly = False

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        del ticket
        mine, rows = view.snapshot.ref.incarnation, _read_rows(self.source)
        adopted = [
            SetVersion(e.identity, key, e.version, e.owner_branch, e.row_count, e.owner)
            for key, e in self.source.snapshot.entries.items()
            if key in TABLES and mine not in (e.owner, view.snapshot.entry(key).owner)
        ]
        if not adopted:
            return None
        brought = {str(change.table_key): rows[str(change.table_key)] for change in adopted}
        self.fact.writing = replace(self.fact.writing, brings=brought)
        return PlanContent(
            adopted=tuple(adopted),
            origin=self.fact.writing.name,
            merging=Merging(self.source.snapshot, ()),
        )

    def may_retry(self, cause: ReadSetChanged) -> bool:
        del cause
        return False


@dataclass
class Mark:
    """A commit without a table, as of the end of an optimization or of an empty merge."""

    fact: Fact
    kind = WriterKind.MUTATION
    is_costly = False

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        del view, ticket
        return PlanContent(origin=self.fact.writing.name)

    def may_retry(self, cause: ReadSetChanged) -> bool:
        del cause
        return True


@dataclass
class AddType:
    """Another schema, with a new table that no snapshot references before."""

    fact: Fact
    draw_number: Callable[[], int]
    """An id is issued once, also to a change that is prepared again."""
    kind = WriterKind.SCHEMA_APPLY
    is_costly = False

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        number = self.draw_number()
        identity = TableIdentity(TypeId(number), TableIncarnationId(number))
        new = NewTable(identity, TableKey(f"node:Type{number}"), SCHEMA)
        shown = create_table(view.snapshot.root, new, ticket)
        self.fact.writing = replace(self.fact.writing, brings={str(new.table_key): {}})
        return PlanContent(
            origin=self.fact.writing.name,
            schema=SchemaChange(
                SchemaContract("", "", _encode_schema(number)),
                registered=(Register(identity, new.table_key, new.path),),
                created=(shown,),
            ),
        )

    def may_retry(self, cause: ReadSetChanged) -> bool:
        del cause
        return True


def _encode_schema(number: int) -> str:
    return json.dumps({"schema_identity_domain": "simulated", "number": number})


@dataclass
class RunResult:
    """The result of a history."""

    seed: int
    steps: int = 0
    effects: int = 0
    crashes: int = 0
    suspensions: int = 0
    faults: int = 0
    writes: int = 0
    acknowledged: int = 0
    reads: int = 0
    cleanups: int = 0
    removals: int = 0
    branches: int = 0
    problem: str | None = None
    trace: list[str] = field(default_factory=list)


class SimulatedRun:
    """One run, drawn from its seed."""

    def __init__(
        self, seed: int, template: Files, theme: str | None = None, *, traced: bool = False
    ) -> None:
        self.chance = chance = random.Random(seed)
        self.result = RunResult(seed)
        self.turns = Turns(chance, switching=chance.choice([0.02, 0.1, 0.3, 0.6]))
        self.turns.trace = [] if traced else None
        self.files = template.copy()
        self.keep = chance.choice([1, 1, 2, 3])
        self.journal = Journal(tuple(map(str, TABLES)))
        self.needed = NeededFiles(self.files, self.keep, self.journal)
        self.lock = LockFence(self.turns) if chance.random() < 0.4 else None
        drawn = chance.choice(list(THEMES))
        self.theme = THEMES[theme or drawn]
        self.grace_s = chance.choice(self.theme.graces_s)
        self._processes = 0
        self._numbers = len(TABLES)

    def run(self) -> RunResult:
        """Run to the end and return the counts and the problem found."""
        random.seed(self.result.seed)
        enter_run(self.turns)
        try:
            for _ in range(self.chance.choice([1, 2, 2, 3, 3, 4])):
                self._start(self.chance.choice([1, 2, 3, 4]))
            for _ in range(self.theme.cleaners):
                self._start_cleaner()
            self.turns.run()
            self._start_audit()
            self.turns.run()
        except Exception as error:
            self.result.problem = f"{type(error).__name__}: {error}"
            if self.turns.trace is not None:
                raise
        finally:
            leave_run()
            manifest_reader._known.clear()
            process_fence._locks.clear()
        return self._count()

    def _count(self) -> RunResult:
        result, turns = self.result, self.turns
        result.steps, result.effects, result.crashes = turns.steps, turns.effects, turns.crashes
        result.suspensions, result.faults = turns.suspensions, turns.faults
        result.writes = len(self.journal.facts)
        result.acknowledged = sum(f.acknowledged is not None for f in self.journal.facts.values())
        result.removals = self.needed.removals
        result.trace = turns.trace or []
        return result

    # --- processes --------------------------------------------------------------------------------

    def _start(self, deeds: int, fate: Fate | None = None) -> None:
        process = self._new_process(self._draw_fate() if fate is None else fate)
        self.turns.start(process, lambda: self._work(process, deeds))

    def _new_process(self, fate: Fate) -> Process:
        self._processes += 1
        chance, jumps = self.chance, ()
        if chance.random() < 0.3:
            jumps = ((chance.uniform(0, 30), chance.choice(CLOCKS_US)),)
        return Process(self._processes, fate, chance.choice(CLOCKS_US), jumps)

    def _draw_fate(self) -> Fate:
        chance, theme = self.chance, self.theme
        if chance.random() >= theme.trouble:
            return UNTROUBLED
        dies = chance.randint(1, 40) if chance.random() < theme.dying else None
        suspended = (
            chance.randint(1, theme.suspended_by) if chance.random() < theme.suspending else None
        )
        faults: dict[int, Fault] = {}
        if chance.random() < theme.failing:
            for _ in range(chance.choice([1, 1, 2])):
                faults[chance.randint(1, 40)] = chance.choice(list(Fault))
        suspended_s = chance.choice(theme.suspended_s)
        at = (
            chance.choice(theme.suspended_at)
            if len(theme.suspended_at) > 1
            else theme.suspended_at[0]
        )
        in_reads = suspended is not None and chance.random() < theme.suspending_in_reads
        if in_reads and not at:
            # There are many more of them: about a dozen reads for each effect.
            suspended = chance.randint(1, theme.suspended_by * 12)
        return Fate(dies, suspended, suspended_s, at, in_reads, faults)

    def _start_cleaner(self) -> None:
        """A process that only runs cleanups, in intervals."""
        is_troubled = self.theme.has_troubled_cleaners
        process = self._new_process(self._draw_fate() if is_troubled else UNTROUBLED)
        process.clock_off_us = self.chance.choice([0, 10 * DAY_US, 10 * DAY_US])

        def clean() -> None:
            graph = self._open_patiently(process)
            for _ in range(3):
                self._pause(self.grace_s * 3)
                self._do(graph, "clean")

        self.turns.start(process, clean)

    def _pause(self, most_s: float) -> None:
        self.turns.wait(lambda: False, self.chance.uniform(0, most_s))

    def _work(self, process: Process, deeds: int) -> None:
        """Run a few actions; if the process dies, another one continues."""
        done = 0
        try:
            graph = self._open_patiently(process)
            for _ in range(deeds):
                self._do_something(graph)
                done += 1
        except Crashed:
            if self.turns.problem is None and deeds - done > 0:
                self._start(deeds - done - (self.chance.random() < 0.5))
            raise

    def _open_patiently(self, process: Process) -> OpenGraph:
        while True:
            try:
                return self._open(process)
            except (OutcomeUnknown, StorageFailure) as error:
                self._require_excused("open", error)

    def _open(self, process: Process) -> OpenGraph:
        settings = Settings(
            write_concurrency=1,
            maintenance_concurrency=1,
            fold_after=0,
            cleanup_grace_s=self.grace_s,
            writer_wait_s=120.0,
        )
        turns = self.turns
        ids = UlidSource(lambda: turns.clock_us() // 1_000, self.chance.randbytes)
        store = SimulatedStore(self.files, process.number)
        root = GraphRoot(store, settings, ids, turns.clock_us)
        # Set here, because the first access of a root to it blocks other threads.
        root.__dict__["fence"] = self.lock or open_fence(
            store, settings.writer_fence, ids, LeaseTerms.lasting(settings.lease_term_s)
        )
        views = PlainSnapshots(root)
        return OpenGraph(root, views, Writer(views))

    def _do_something(self, graph: OpenGraph) -> None:
        if self.chance.random() < self.theme.pausing:
            self._pause(200.0)
        deeds = self.theme.deeds
        self._do(graph, self.chance.choices(list(deeds), list(deeds.values()))[0])

    def _do(self, graph: OpenGraph, name: str) -> None:
        deed: Callable[[OpenGraph], None] = getattr(self, f"_{name}")
        if self.turns.trace is not None:
            self.turns.trace.append(f"p{self.turns.process.number}: {name}")
        try:
            deed(graph)
        except NEVER as error:
            raise Violation(f"{name}: {type(error).__name__}: {error}") from error
        except OmniError as error:
            self._require_excused(name, error)

    def _require_excused(self, deed: str, error: OmniError) -> None:
        """Raise unless other writers, or a lost answer, explain the error."""
        if self.turns.trace is not None:
            self.turns.trace.append(
                f"p{self.turns.process.number}: {type(error).__name__}: {error}"
            )
        if self.turns.process.was_suspended and deed != "read":
            return  # its work may have been removed as that of a dead writer
        if isinstance(error, StorageFailure) and error.kind is not StorageKind.TRANSIENT:
            raise Violation(f"{deed}: {type(error).__name__}: {error}") from error

    # --- actions ----------------------------------------------------------------------------------

    def _pick_branch(self) -> str:
        return self.chance.choice(["main", "main", *BRANCHES])

    def _draw_writing(self, branch: str, tables: int | None = None) -> Writing:
        chance, name = self.chance, f"w{len(self.journal.facts)}"
        chosen = chance.sample(TABLES, tables or chance.choice([1, 2, 2, 3]))
        number = len(self.journal.facts)
        puts = {str(key): {name: number} for key in chosen}
        removes: dict[str, list[str]] = {}
        first = str(chosen[0])
        if chance.random() < 0.5:
            puts[first]["shared"] = number
        if number and chance.random() < 0.3:
            removes[first] = [f"w{chance.randrange(number)}"]
        return Writing(name, branch, puts, removes, is_costly=chance.random() < 0.2)

    def _write(self, graph: OpenGraph, writing: Writing | None = None) -> None:
        writing = writing or self._draw_writing(self._pick_branch())
        fact = self.journal.facts[writing.name] = Fact(writing, self.turns.steps)
        self._change(graph, fact, PutRows(writing))

    def _pull(self, graph: OpenGraph) -> None:
        """Set tables of a branch to the versions of another one, current or earlier."""
        source, target = self.chance.sample(("main", *BRANCHES), 2)
        view = graph.views.read_newest(source)
        old = [one for one in graph.seen if one.snapshot.branch == source]
        if old and self.chance.random() < 0.5:
            view = self.chance.choice(old)  # as a restore does
        name = f"w{len(self.journal.facts)}"
        fact = self.journal.facts[name] = Fact(Writing(name, target, {}, {}), self.turns.steps)
        self._change(graph, fact, Pull(fact, view))

    def _mark(self, graph: OpenGraph, branch: str | None = None) -> None:
        name = f"w{len(self.journal.facts)}"
        writing = Writing(name, branch or self._pick_branch(), {}, {})
        fact = self.journal.facts[name] = Fact(writing, self.turns.steps)
        self._change(graph, fact, Mark(fact))

    def _add_type(self, graph: OpenGraph) -> None:
        name = f"w{len(self.journal.facts)}"
        writing = Writing(name, self._pick_branch(), {}, {})
        fact = self.journal.facts[name] = Fact(writing, self.turns.steps)
        self._change(graph, fact, AddType(fact, self._draw_number))

    def _draw_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _merge_history(self, graph: OpenGraph) -> None:
        """Merge the history of the manifest as `optimize` does."""
        branch = self._pick_branch()
        with graph.root.acquire_fence() as guard:
            resolve_all(graph.root, guard)
            view = graph.views.read_newest(branch)
            table = open_newest(view.snapshot.manifest.location)
            guard.check()
            compact_lineage(table, properties={}, small_fragments=2)

    def _change(self, graph: OpenGraph, fact: Fact, change: Change) -> None:
        writing = fact.writing
        try:
            published = graph.writer.write(change, WriteOptions(branch=writing.branch))
        except OmniError as error:
            if not isinstance(error, UNCERTAIN):
                fact.failed = f"{type(error).__name__}: {error}"
            if isinstance(error, StorageFailure) and error.kind is StorageKind.NOT_FOUND:
                self._remove_unfinished(graph, writing.branch)
            raise
        if published is None:
            fact.failed = "there was nothing to do"
            return
        assert published.commit is not None
        fact.acknowledged, fact.incarnation = self.turns.steps, published.commit.incarnation

    def _remove_unfinished(
        self, graph: OpenGraph, name: str, incarnation: str | None = None
    ) -> None:
        """Delete a name that was never acknowledged, which its creator failed to.

        It was suspended, a cleanup removed the branch without a name, and the creator resumed,
        wrote the name, and could not remove it again. No file of an acknowledged branch is missing.
        """
        ref = find_ref(graph.root.store, name)
        if ref is None or incarnation not in (None, ref.incarnation):
            return
        if ref.incarnation not in self.journal.created:
            self.journal.doomed.add(name)
            graph_branches.delete(graph.root, name, ref.incarnation)
            raise BranchNotFound(name)

    def _read(self, graph: OpenGraph) -> None:
        self.result.reads += 1
        self._require_right(graph, self._pick_branch())

    def _require_right(self, graph: OpenGraph, branch: str) -> None:
        """Read all of a branch, and compare."""
        for _ in range(8):
            known = {one: list(self.journal.list_acknowledged(one)) for one in self._incarnations()}
            try:
                view = graph.views.read_newest(branch)
                found = _read_rows(view)
                commits = graph.views.commits_at(view.snapshot)
            except HistoricalVersionReclaimed:
                continue  # by a cleanup, after later commits
            except BranchNotFound:
                if branch == "main":
                    raise Violation("main is missing") from None
                return
            except StorageFailure:
                ref = find_ref(graph.root.store, branch)
                if ref is not None and ref.incarnation in known:
                    raise
                return  # it was deleted while it was read
            snapshot = view.snapshot
            graph.seen.append(view)
            self.journal.require_right(
                branch=branch,
                incarnation=snapshot.ref.incarnation,
                must_have=known.get(snapshot.ref.incarnation, ()),
                head=snapshot.head,
                commits=commits,
                found=found,
            )
            return

    def _incarnations(self) -> set[str | None]:
        return {fact.incarnation for fact in self.journal.facts.values()}

    def _create_branch(self, graph: OpenGraph) -> None:
        old = graph.seen and self.chance.random() < 0.4
        source = self.chance.choice(("main", "main", *BRANCHES))
        view = self.chance.choice(graph.seen) if old else graph.views.read_newest(source)
        name = self.chance.choice(BRANCHES)
        ref = graph_branches.create(view.snapshot, name)
        self.result.branches += 1
        assert ref.incarnation is not None
        self.journal.created[ref.incarnation] = name

    def _delete_branch(self, graph: OpenGraph) -> None:
        name = self.chance.choice(BRANCHES)
        self.journal.doomed.add(name)
        graph_branches.delete(graph.root, name)

    def _rename_branch(self, graph: OpenGraph) -> None:
        old, new = self.chance.sample(BRANCHES, 2)
        self.journal.doomed.add(old)
        graph_branches.rename(graph.root, old, new)

    def _clean(self, graph: OpenGraph) -> None:
        self.result.cleanups += 1
        try:
            run_cleanup(graph.root, Retention(keep=self.keep))
        except ManifestCorrupt as error:
            named = re.search(r"has no branch (\w+), which '(\w+)'", error.message)
            if named is None or named[1] in self.journal.created:
                raise
            self._remove_unfinished(graph, named[2], named[1])

    def _recover(self, graph: OpenGraph) -> None:
        with graph.root.acquire_fence() as guard:
            resolve_all(graph.root, guard)

    def _tag(self, graph: OpenGraph) -> None:
        view = graph.views.read_newest(self._pick_branch())
        head = view.snapshot.own_head
        if head is not None:
            commit = graph.views.commit(head, view.snapshot.branch)
            create_tag(graph.root, f"t{self.turns.steps}", commit)

    def _tag_old(self, graph: OpenGraph) -> None:
        """Tag any commit in the history of a branch."""
        view = graph.views.read_newest(self._pick_branch())
        commits = History().commits(view.snapshot.manifest)
        create_tag(graph.root, f"t{self.turns.steps}", self.chance.choice(commits))

    def _consume(self, graph: OpenGraph) -> None:
        """Record that the feed of a branch was read up to some commit of its history."""
        view = graph.views.read_newest(self._pick_branch())
        commits = History().commits(view.snapshot.manifest)
        at = self.chance.randrange(len(commits))
        commit, unread, name = commits[at], commits[:at], f"c{self.turns.steps}"
        set_consumer(graph.root, name, view.snapshot.ref, commit, 100_000 * DAY_US, unread)
        self.journal.consumers[name] = (view.snapshot.ref.incarnation, commit.commit_id)
        self.needed.forget()

    # --- at the end -------------------------------------------------------------------------------

    def _start_audit(self) -> None:
        process = self._new_process(UNTROUBLED)
        self.turns.start(process, lambda: self._audit(process))

    def _audit(self, process: Process) -> None:
        """Recover as a new writer, and check that everything is recovered and whole."""
        graph = self._open(process)
        self._recover(graph)
        pending = list_operations(graph.root.store)
        if pending:
            raise Violation(f"still pending: {pending}")
        self.needed.require_whole()
        self._require_branches(graph)
        for name in list_names(graph.root.store):
            self._require_right(graph, name)
            try:
                self._write(graph, self._draw_writing(name, len(TABLES)))
            except BranchNotFound:
                if name not in self.journal.doomed:
                    raise
                continue  # a name it had before it was renamed, and that a write has finished
            self._require_right(graph, name)
        if self.chance.random() < 0.15:
            self._audit_cleanup(graph, list_names(graph.root.store))

    def _audit_cleanup(self, graph: OpenGraph, names: list[Any]) -> None:
        """Check that undisturbed cleanups retain everything needed, and nothing else."""
        for _ in range(3):
            self.turns.wait(lambda: False, 100_000.0)
            self._clean(graph)
            for name in names:  # a file of the manifest is removed after the next publish
                self._mark(graph, name)
        self.needed.require_whole()
        for name in names:
            self._require_right(graph, name)
        garbage = self.needed.list_garbage()
        if garbage:
            raise Violation(f"left behind: {garbage}")

    def _require_branches(self, graph: OpenGraph) -> None:
        for incarnation, name in self.journal.created.items():
            ref = find_ref(graph.root.store, name)
            is_there = ref is not None and ref.incarnation == incarnation
            if not is_there and name not in self.journal.doomed:
                raise Violation(f"branch {name} is missing, and was never deleted")


def _read_rows(view: CatalogSnapshot) -> State:
    state: State = {}
    for key, entry in view.snapshot.entries.items():
        rows = view.snapshot.table(key).scan(["id", "value"])
        if rows.num_rows != entry.row_count:
            raise Violation(f"{key} has {rows.num_rows} rows, not {entry.row_count}")
        ids, values = (rows.column(name).to_pylist() for name in ("id", "value"))
        if len(set(ids)) != len(ids):
            raise Violation(f"{key} has an id twice: {ids}")
        state[str(key)] = dict(zip(ids, values, strict=True))
    return state


def make_template() -> Files:
    """A graph that was just created, for runs to start from."""
    files, turns = Files(), Turns(random.Random(0), 0.0)
    tables = [
        NewTable(TableIdentity(TypeId(at), TableIncarnationId(at)), key, SCHEMA)
        for at, key in enumerate(TABLES, 1)
    ]
    assert {key.partition(":")[0] for key in TABLES} == set(map(str, EntityKind))

    def create() -> None:
        ids = UlidSource(lambda: turns.clock_us() // 1_000, turns.chance.randbytes)
        root = GraphRoot(SimulatedStore(files, 0), Settings(), ids, turns.clock_us)
        initialize(root, tables, SchemaContract("", "", _encode_schema(0)))

    enter_run(turns)
    try:
        turns.start(Process(0), create)
        turns.run()
    finally:
        leave_run()
        manifest_reader._known.clear()
    return files
