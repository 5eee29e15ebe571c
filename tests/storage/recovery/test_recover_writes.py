"""Recovery of interrupted writes: each decision once, twice, and in order."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest
from msgspec import structs

import omnigraph
from crash.crash_checks import check_order, content_of
from crash.crash_scenario import SCHEMA, create
from omnigraph.errors import RecoveryRequired
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import make_intent_path
from omnigraph.storage.manifest.commit_records import RECOVERY_ACTOR, RecoveryKind
from omnigraph.storage.manifest.manifest_changes import SetVersion
from omnigraph.storage.manifest.manifest_reader import History, read_newest
from omnigraph.storage.prepared_write import StagedTable, mint_ticket, open_writable
from omnigraph.storage.recovery.recover_writes import (
    examine,
    resolve_all,
    resolve_intent,
)
from omnigraph.storage.recovery.recovery_decision import RecoveryDecision
from omnigraph.storage.refs import delete_ref, mark_deleted, read_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_changes
from omnigraph.storage.tables.table import find_latest_version, open_table
from omnigraph.storage.tables.table_commit import commit_exact, restore
from omnigraph.storage.write_plan import (
    OPERATION_PROPERTY,
    TableChanges,
    WritePlan,
    WriterKind,
    list_operations,
    write_intent,
)
from omnigraph.writer.change import PlanContent, WriteOptions

PERSON, CITY = "node:Person", "node:City"


@dataclass
class Written:
    """A write with a stored intent, and the transactions that carry it out."""

    plan: WritePlan
    staged: dict[str, StagedTransaction]

    def move(self, *keys: str) -> None:
        for key in keys:
            commit_exact(self.staged[key])


class InterruptedGraph:
    """A graph below the level of the graph, to interrupt at will."""

    def __init__(self, place) -> None:
        self.place = place
        self.graph = create(place)
        self.root = GraphRoot.at(str(place))

    def snapshot(self, branch="main") -> Snapshot:
        ref = read_ref(self.root.store, branch)
        return Snapshot(self.root, ref, read_newest(self.root.manifest(ref.incarnation)))

    def write_intent_of(self, *keys: str, slug="eve", branch="main") -> Written:
        """Write the intent of an insert into these tables, and none of its effects."""
        snapshot = self.snapshot(branch)
        ticket, staged = mint_ticket(snapshot), {}
        for key in keys:
            writable = open_writable(snapshot, snapshot.entries[key])
            table = writable.table
            rows = pa.Table.from_pylist([{"id": slug, "slug": slug, "name": slug}])
            nulls = {n: pa.nulls(1, table.schema.field(n).type) for n in table.schema.names}
            full = pa.table(
                [rows[n] if n in rows.schema.names else nulls[n] for n in table.schema.names],
                schema=table.schema,
            )
            transaction = stage_changes(table, full, properties=ticket.properties)
            staged[key] = StagedTable(writable, transaction)
        options = WriteOptions(branch=branch, actor_id="victim")
        content = PlanContent(tuple(staged.values()))
        plan = content.complete(snapshot, ticket, WriterKind.MUTATION, options).plan
        write_intent(self.root.store, plan)
        return Written(plan, {key: one.transaction for key, one in staged.items()})

    def resolve_all(self) -> list[RecoveryDecision]:
        with self.root.acquire_fence() as guard:
            return [resolved.decision for resolved in resolve_all(self.root, guard)]

    def again(self, written: Written) -> RecoveryDecision:
        """Recover it again, as after a crash right before its intent was removed."""
        write_intent(self.root.store, written.plan)
        with self.root.acquire_fence() as guard:
            return resolve_intent(self.root, guard, written.plan).decision

    def kinds(self, branch="main") -> list[RecoveryKind]:
        return [a.kind for a in History().audits(self.snapshot(branch).manifest)]

    def people(self, branch="main") -> set[str]:
        records = self.graph.export(["Person"], branch=branch)
        return {record["data"]["slug"] for record in records}


@pytest.fixture
def interrupted(tmp_path):
    return InterruptedGraph(tmp_path / "town")


def assert_recovered_for_good(interrupted, written, decision):
    """Check that recovering again finds it done, and changes nothing visible."""
    before, version = content_of(interrupted.graph), interrupted.snapshot().manifest_version
    assert interrupted.again(written) is decision
    assert interrupted.snapshot().manifest_version == version
    assert content_of(interrupted.graph) == before
    assert list_operations(interrupted.root.store) == []
    check_order(interrupted.place, omnigraph.open(interrupted.place))


def test_an_intent_of_another_graph_is_quarantined_without_a_record(interrupted):
    written = interrupted.write_intent_of(PERSON)
    written.plan = structs.replace(
        written.plan, requires=structs.replace(written.plan.requires, graph="another")
    )
    write_intent(interrupted.root.store, written.plan)
    quarantined = omnigraph.quarantine(interrupted.place, written.plan.operation_id)
    assert interrupted.root.store.find(quarantined) is not None
    assert list_operations(interrupted.root.store) == []
    assert interrupted.kinds() == []


def test_an_abandoned_intent_is_quarantined_without_a_second_record(interrupted):
    written = interrupted.write_intent_of(PERSON)
    assert interrupted.resolve_all() == [RecoveryDecision.ABANDON]
    write_intent(interrupted.root.store, written.plan)
    omnigraph.quarantine(interrupted.place, written.plan.operation_id)
    assert interrupted.kinds() == [RecoveryKind.ABANDONED]
    check_order(interrupted.place, omnigraph.open(interrupted.place))


def test_an_intent_without_effects_is_abandoned(interrupted):
    written = interrupted.write_intent_of(PERSON, CITY)
    assert interrupted.resolve_all() == [RecoveryDecision.ABANDON]
    assert interrupted.kinds() == [RecoveryKind.ABANDONED]
    assert_recovered_for_good(interrupted, written, RecoveryDecision.FINISH_ROLLED_BACK)


def test_a_write_whose_effects_are_all_there_is_finished_under_its_own_name(interrupted):
    written = interrupted.write_intent_of(PERSON, CITY)
    written.move(PERSON, CITY)
    assert "eve" not in interrupted.people()
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_FORWARD]
    commit = interrupted.graph.commits()[0]
    planned = written.plan.commit
    assert (commit.commit_id, commit.actor_id) == (planned.commit_id, "victim")
    assert commit.created_at == planned.created_at
    assert "eve" in interrupted.people()
    assert interrupted.kinds() == [RecoveryKind.ROLLED_FORWARD]
    assert_recovered_for_good(interrupted, written, RecoveryDecision.FINISH_PUBLISHED)


def test_a_write_that_is_finished_keeps_its_merged_parent_details_and_adopted_versions(interrupted):
    """The record of a merge: one table is moved, another one is adopted."""
    interrupted.graph.mutate('query q() { insert City { slug: "rome", name: "Rome" } }')
    entry = interrupted.snapshot().entries[CITY]
    earlier = open_table(
        interrupted.root.location(entry.path, entry.owner_branch), entry.version - 1
    )
    adopted = SetVersion(
        entry.identity, CITY, earlier.version, entry.owner_branch, earlier.count_rows(), entry.owner
    )
    written = interrupted.write_intent_of(PERSON)
    parent = interrupted.graph.commits()[-1].commit_id
    plan = structs.replace(
        written.plan,
        changes=structs.replace(written.plan.changes, adopted=(adopted,)),
        commit=structs.replace(
            written.plan.commit,
            merged_parent_commit_id=parent,
            details={"message": "both", "rules": ["ours"]},
        ),
    )
    write_intent(interrupted.root.store, plan)
    written.move(PERSON)
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_FORWARD]
    commit = interrupted.graph.commits()[0]
    assert commit.merged_parent_commit_id == parent
    assert commit.details == {"message": "both", "rules": ["ours"]}
    assert commit.wire()["details"] == commit.details
    assert "eve" in interrupted.people()
    assert interrupted.snapshot().entries[CITY].version == earlier.version


def test_a_write_whose_effects_are_partly_there_is_undone(interrupted):
    before = content_of(interrupted.graph)
    written = interrupted.write_intent_of(PERSON, CITY)
    written.move(PERSON)
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_BACK]
    commit = interrupted.graph.commits()[0]
    assert (commit.commit_id, commit.actor_id) == (
        written.plan.rollback_commit_id,
        RECOVERY_ACTOR,
    )
    assert content_of(interrupted.graph) == before
    assert interrupted.kinds() == [RecoveryKind.ROLLED_BACK]
    assert_recovered_for_good(interrupted, written, RecoveryDecision.FINISH_ROLLED_BACK)


def test_a_whole_write_whose_branch_moved_on_is_undone(interrupted):
    """The fence prevents this: another writer published while the intent was pending."""
    written = interrupted.write_intent_of(CITY)
    written.move(CITY)
    other = interrupted.write_intent_of(PERSON, slug="fay")
    other.move(PERSON)
    with interrupted.root.acquire_fence() as guard:
        assert (
            resolve_intent(interrupted.root, guard, other.plan).decision
            is RecoveryDecision.ROLL_FORWARD
        )
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_BACK]
    assert "fay" in interrupted.people()
    assert_recovered_for_good(interrupted, written, RecoveryDecision.FINISH_ROLLED_BACK)


def test_an_existing_restore_is_recognised_and_not_repeated(interrupted):
    written = interrupted.write_intent_of(PERSON, CITY)
    written.move(PERSON)
    (table, _) = written.plan.changes.moved
    location = interrupted.root.location(table.path, table.branch)
    properties = {OPERATION_PROPERTY: written.plan.operation_id}
    restored = restore(location, table.base_version, properties=properties)
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_BACK]
    assert find_latest_version(location) == restored
    assert interrupted.snapshot().entries[PERSON].version == restored
    assert_recovered_for_good(interrupted, written, RecoveryDecision.FINISH_ROLLED_BACK)


def test_a_restore_that_comes_after_the_write_was_finished_is_undone(interrupted):
    """A recovering writer was suspended before it, while another one finished the write."""
    written = interrupted.write_intent_of(PERSON)
    written.move(PERSON)
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_FORWARD]
    (table,) = written.plan.changes.moved
    location = interrupted.root.location(table.path, table.branch)
    properties = {OPERATION_PROPERTY: written.plan.operation_id}
    restore(location, table.base_version, properties=properties)
    interrupted.graph.load([{"type": "Person", "data": {"slug": "fay", "name": "F"}}], "append")
    assert {"eve", "fay"} <= interrupted.people()
    assert RecoveryKind.REVOKED_EFFECT in interrupted.kinds()
    check_order(interrupted.place, omnigraph.open(interrupted.place))


def test_a_write_whose_base_was_removed_before_its_intent_is_abandoned(interrupted):
    """Its writer was suspended before the intent, and cleanup removed later versions."""
    written = interrupted.write_intent_of(PERSON)
    interrupted.root.store.delete(make_intent_path(written.plan.operation_id))
    for slug in ("fay", "gus", "hal"):
        person = {"type": "Person", "data": {"slug": slug, "name": slug}}
        interrupted.graph.load([person], "append")
    interrupted.graph.cleanup(keep=1, confirm=True)
    before = content_of(interrupted.graph)
    write_intent(interrupted.root.store, written.plan)
    assert interrupted.resolve_all() == [RecoveryDecision.ABANDON]
    assert content_of(interrupted.graph) == before
    check_order(interrupted.place, omnigraph.open(interrupted.place), is_cleaned=True)


def test_the_fork_of_a_write_is_removed_with_its_branch_and_its_table(interrupted):
    """Its writer was suspended before the intent, and the branch and the type were dropped."""
    interrupted.graph.create_branch("dev")
    written = interrupted.write_intent_of(CITY, branch="dev")
    interrupted.root.store.delete(make_intent_path(written.plan.operation_id))
    interrupted.graph.delete_branch("dev")
    interrupted.graph.apply_schema(SCHEMA.partition("node City")[0])
    interrupted.root.store.delete_prefix(written.plan.changes.moved[0].path)
    write_intent(interrupted.root.store, written.plan)
    assert interrupted.resolve_all() == [RecoveryDecision.DISCARD_BRANCH]
    check_order(interrupted.place, omnigraph.open(interrupted.place))


def test_a_late_intent_for_an_unreferenced_branch_of_a_table_is_abandoned(interrupted):
    """The branch references the table of another one again, and cleanup removed its own."""
    graph = interrupted.graph
    graph.create_branch("dev")
    graph.load([{"type": "Person", "data": {"slug": "fay", "name": "F"}}], "append", branch="dev")
    written = interrupted.write_intent_of(PERSON, branch="dev")
    interrupted.root.store.delete(make_intent_path(written.plan.operation_id))
    (table,) = written.plan.changes.moved
    assert table.branch is not None
    assert not table.is_fork
    elsewhere = structs.replace(table, branch="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    written.plan = structs.replace(written.plan, changes=TableChanges(moved=(elsewhere,)))
    write_intent(interrupted.root.store, written.plan)
    assert interrupted.resolve_all() == [RecoveryDecision.ABANDON]
    check_order(interrupted.place, omnigraph.open(interrupted.place))


def test_an_effect_on_top_of_a_published_version_is_undone_down_to_that_version(interrupted):
    """As if Lance had rebased the write onto a version published concurrently."""
    interrupted.graph.load([{"type": "Person", "data": {"slug": "fay", "name": "F"}}], "append")
    before = content_of(interrupted.graph)
    written = interrupted.write_intent_of(PERSON)
    written.move(PERSON)
    (table,) = written.plan.changes.moved
    earlier = structs.replace(table, base_version=table.base_version - 1)
    written.plan = structs.replace(written.plan, changes=TableChanges(moved=(earlier,)))
    write_intent(interrupted.root.store, written.plan)
    assert examine(interrupted.root, written.plan).classes == ("misplaced",)
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_BACK]
    assert content_of(interrupted.graph) == before
    assert "fay" in interrupted.people()
    assert_recovered_for_good(interrupted, written, RecoveryDecision.FINISH_ROLLED_BACK)


def test_forks_of_a_write_that_was_undone_are_removed(interrupted):
    interrupted.graph.create_branch("dev")
    before = content_of(interrupted.graph)
    written = interrupted.write_intent_of(PERSON, CITY, branch="dev")
    written.move(CITY)
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_BACK]
    assert content_of(interrupted.graph) == before
    assert interrupted.kinds("dev") == [RecoveryKind.ROLLED_BACK]
    assert interrupted.kinds() == []
    assert not list(interrupted.place.glob("nodes/*/tree/*"))
    assert interrupted.again(written) is RecoveryDecision.FINISH_ROLLED_BACK


def test_forks_of_a_write_that_was_finished_are_what_the_branch_shows(interrupted):
    interrupted.graph.create_branch("dev")
    written = interrupted.write_intent_of(PERSON, CITY, branch="dev")
    written.move(PERSON, CITY)
    assert interrupted.resolve_all() == [RecoveryDecision.ROLL_FORWARD]
    assert "eve" in interrupted.people("dev")
    assert "eve" not in interrupted.people()
    shown = {entry.owner_branch for entry in interrupted.snapshot("dev").entries.values()}
    assert {table.branch for table in written.plan.changes.moved} <= shown
    assert_recovered_for_good(interrupted, written, RecoveryDecision.FINISH_PUBLISHED)


def lose_name(interrupted, name):
    """Leave the state of a branch whose deletion was interrupted."""
    mark_deleted(interrupted.root.store, read_ref(interrupted.root.store, name))
    delete_ref(interrupted.root.store, name)


def test_the_write_of_a_deleted_branch_is_recorded_on_main_once(interrupted):
    interrupted.graph.create_branch("dev")
    written = interrupted.write_intent_of(PERSON, branch="dev")
    written.move(PERSON)
    lose_name(interrupted, "dev")
    assert interrupted.resolve_all() == [RecoveryDecision.DISCARD_BRANCH]
    assert interrupted.kinds() == [RecoveryKind.ORPHANED_BRANCH_DISCARDED]
    assert_recovered_for_good(interrupted, written, RecoveryDecision.DISCARD_BRANCH)
    assert interrupted.kinds() == [RecoveryKind.ORPHANED_BRANCH_DISCARDED]


def test_a_branch_of_the_same_name_is_not_mistaken_for_the_deleted_one(interrupted):
    interrupted.graph.create_branch("dev")
    written = interrupted.write_intent_of(PERSON, branch="dev")
    written.move(PERSON)
    lose_name(interrupted, "dev")
    with interrupted.root.acquire_fence() as guard:
        assert (
            examine(interrupted.root, written.plan).verdict.decision
            is RecoveryDecision.DISCARD_BRANCH
        )
        assert guard.epoch
    omnigraph.open(interrupted.place).create_branch("dev")
    assert "eve" not in interrupted.people("dev")
    assert interrupted.kinds() == [RecoveryKind.ORPHANED_BRANCH_DISCARDED]


def test_several_writes_are_recovered_in_the_order_of_their_intents(interrupted):
    """Each is examined in turn, after the effects of the ones before."""
    written = [interrupted.write_intent_of(PERSON, CITY) for _ in range(3)]
    written[1].move(PERSON)
    assert interrupted.resolve_all() == [
        RecoveryDecision.ABANDON,
        RecoveryDecision.ROLL_BACK,
        RecoveryDecision.ABANDON,
    ]
    audits = History().audits(interrupted.snapshot().manifest)
    assert [a.operation_id for a in audits] == [w.plan.operation_id for w in written]
    for one in written:
        assert_recovered_for_good(interrupted, one, RecoveryDecision.FINISH_ROLLED_BACK)


def test_a_write_without_effects_does_not_stop_one_that_is_whole(interrupted):
    """Two first writes of one table on a branch, each with a fork of its own."""
    interrupted.graph.create_branch("dev")
    idle = interrupted.write_intent_of(PERSON, branch="dev")
    whole = interrupted.write_intent_of(PERSON, slug="fay", branch="dev")
    whole.move(PERSON)
    assert interrupted.resolve_all() == [RecoveryDecision.ABANDON, RecoveryDecision.ROLL_FORWARD]
    assert interrupted.kinds("dev") == [RecoveryKind.ABANDONED, RecoveryKind.ROLLED_FORWARD]
    assert interrupted.people("dev") - interrupted.people() == {"fay"}
    forks = {path.name for path in interrupted.place.glob("nodes/*/tree/*")}
    assert forks == {whole.plan.changes.moved[0].branch}
    assert interrupted.graph.commits("dev")[0].commit_id == whole.plan.commit.commit_id
    assert_recovered_for_good(interrupted, whole, RecoveryDecision.FINISH_PUBLISHED)
    assert_recovered_for_good(interrupted, idle, RecoveryDecision.FINISH_ROLLED_BACK)


def test_one_that_cannot_be_recovered_blocks_the_later_intents(interrupted):
    first, second = interrupted.write_intent_of(PERSON), interrupted.write_intent_of(CITY)
    first.move(PERSON)
    location = interrupted.root.location(first.plan.changes.moved[0].path)
    restore(location, 1, properties={})
    with pytest.raises(RecoveryRequired, match="buried"):
        interrupted.resolve_all()
    operations = [first.plan.operation_id, second.plan.operation_id]
    assert list_operations(interrupted.root.store) == operations


def test_one_that_cannot_be_recovered_concerns_its_own_branch_alone(interrupted):
    interrupted.graph.create_branch("dev")
    first = interrupted.write_intent_of(PERSON)
    first.move(PERSON)
    restore(
        interrupted.root.location(first.plan.changes.moved[0].path),
        1,
        properties={},
    )
    dev = read_ref(interrupted.root.store, "dev")
    with interrupted.root.acquire_fence() as guard:
        assert resolve_all(interrupted.root, guard, dev) == []
        with pytest.raises(RecoveryRequired):
            resolve_all(interrupted.root, guard, read_ref(interrupted.root.store, "main"))


def test_looking_at_an_interrupted_write_changes_nothing(interrupted):
    written = interrupted.write_intent_of(PERSON, CITY)
    written.move(PERSON)
    version = interrupted.snapshot().manifest_version
    for _ in range(2):
        found = examine(interrupted.root, written.plan)
        assert found.verdict.decision is RecoveryDecision.ROLL_BACK
        assert found.classes == ("complete", "no_movement")
    assert interrupted.snapshot().manifest_version == version
    assert list_operations(interrupted.root.store) == [written.plan.operation_id]
