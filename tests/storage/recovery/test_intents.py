"""Intents as they are written down, and what is refused instead of guessed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import (
    BranchName,
    CommitId,
    EntityKind,
    OperationId,
    TableIdentity,
    TableIncarnationId,
    TableKey,
    TypeId,
)
from omnigraph.storage.layout import RECOVERY, make_intent_path, make_table_path
from omnigraph.storage.manifest.commit_records import (
    CommitMetadata,
    CommitRecord,
    MergedState,
    MergedTable,
    RowCounts,
)
from omnigraph.storage.manifest.manifest_changes import (
    Register,
    Rename,
    SchemaChange,
    SetVersion,
    Tombstone,
)
from omnigraph.storage.manifest.manifest_state import SchemaContract
from omnigraph.storage.write_plan import (
    TableChanges,
    TableMove,
    WritePlan,
    WriteRequirements,
    WriterKind,
    decode_intent,
    delete_intent,
    encode_intent,
    list_operations,
    list_pending_intents,
    write_intent,
)
from storage.memory_store import MemoryObjectStore

ROOT = "memory://graph"
ULIDS = st.from_regex(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", fullmatch=True)
NUMBERS = st.integers(1, 2**63 - 1)
NAMES = st.text(min_size=1, max_size=20)


@st.composite
def table_moves(draw):
    kind = draw(st.sampled_from(EntityKind))
    identity = TableIdentity(TypeId(draw(NUMBERS)), TableIncarnationId(draw(NUMBERS)))
    is_fork = draw(st.booleans())
    return TableMove(
        identity=identity,
        table_key=TableKey(f"{kind}:{draw(NAMES)}"),
        path=make_table_path(kind, identity),
        branch=draw(ULIDS) if is_fork else draw(st.none() | ULIDS),
        base_version=draw(NUMBERS),
        transaction=draw(NAMES),
        is_fork=is_fork,
    )


@st.composite
def plans(draw):
    commit, rollback = draw(st.lists(ULIDS, min_size=2, max_size=2, unique=True))
    kind = draw(st.sampled_from(WriterKind))
    moved = draw(
        st.lists(table_moves(), max_size=4, unique_by=(lambda t: t.identity, lambda t: t.table_key))
    )
    return WritePlan(
        operation_id=OperationId(draw(ULIDS)),
        rollback_commit_id=CommitId(rollback),
        writer_kind=kind,
        changes=TableChanges(moved=tuple(moved)),
        requires=WriteRequirements(
            graph=draw(NAMES),
            root=ROOT,
            branch=BranchName(draw(NAMES)),
            incarnation=draw(st.none() | ULIDS),
            own_head=draw(st.none() | ULIDS.map(CommitId)),
            contract_hash=draw(NAMES),
            expected_head=draw(st.none() | ULIDS.map(CommitId)),
            source_branch=draw(st.none() | NAMES.map(BranchName)),
            sole_branch=draw(st.booleans()),
        ),
        commit=CommitMetadata(
            commit_id=CommitId(commit),
            actor_id=draw(st.none() | NAMES),
            created_at=draw(NUMBERS),
            merged_parent_commit_id=draw(st.none() | ULIDS.map(CommitId)),
            origin=draw(st.none() | NAMES),
            details=draw(st.dictionaries(NAMES, st.none() | NAMES | NUMBERS, max_size=2)),
            kind=kind.commit_kind,
            tables=tuple(RowCounts(one.table_key, 1, 2, 3) for one in moved),
        ),
        records_commit=draw(st.booleans()),
    )


@given(plans())
def test_an_intent_is_read_as_it_was_written(plan):
    found = decode_intent(encode_intent(plan), make_intent_path(plan.operation_id))
    assert found == plan
    assert all(table.target_version == table.base_version + 1 for table in found.changes.moved)


def test_the_adopted_tables_of_a_merge_are_read_as_written():
    """A whole merge: history, the state it merged, adopted versions, and another schema."""
    adopted = SetVersion(IDENTITY, TableKey("node:B"), 3, None, 1)
    fresh = Register(IDENTITY, TableKey("node:C"), make_table_path(EntityKind.NODE, IDENTITY))
    state = MergedState(
        "01ARZ3NDEKTSV4RRFFQ69G5FAV", (MergedTable("node:B", "p", None, 3, None, 1),)
    )
    merge = structs.replace(
        PLAN,
        changes=TableChanges(
            adopted=(adopted,),
            schema=SchemaChange(
                SchemaContract("source", "ir", "state"),
                registered=(fresh,),
                renamed=(Rename(IDENTITY, TableKey("node:A"), TableKey("node:D")),),
                dropped=(Tombstone(IDENTITY, TableKey("node:E"), 4),),
            ),
        ),
        commit=structs.replace(PLAN.commit, merged=state),
        history=(
            CommitRecord.publish(
                PLAN.commit, branch="dev", manifest_version=4, incarnation="01ARZ"
            ),
        ),
    )
    assert decode_intent(encode_intent(merge), PATH) == merge


IDENTITY = TableIdentity(TypeId(1), TableIncarnationId(2))
PLAN = WritePlan(
    operation_id=OperationId("01ARZ3NDEKTSV4RRFFQ69G5FA1"),
    rollback_commit_id=CommitId("01ARZ3NDEKTSV4RRFFQ69G5FA3"),
    writer_kind=WriterKind.LOAD,
    changes=TableChanges(
        moved=(
            TableMove(
                identity=IDENTITY,
                table_key=TableKey("node:A"),
                path=make_table_path(EntityKind.NODE, IDENTITY),
                branch=None,
                base_version=4,
                transaction="uuid",
                is_fork=False,
            ),
        ),
    ),
    requires=WriteRequirements(
        graph="graph",
        root=ROOT,
        branch=BranchName("main"),
        incarnation=None,
        own_head=None,
        contract_hash="hash",
    ),
    commit=CommitMetadata(
        commit_id=CommitId("01ARZ3NDEKTSV4RRFFQ69G5FA2"),
        actor_id="ada",
        created_at=7,
        kind="load",
    ),
)
PATH = make_intent_path(PLAN.operation_id)


def body() -> dict:
    """An intent without its checksum, which any change would break."""
    value = json.loads(encode_intent(PLAN))
    del value["crc32"]
    return value


@pytest.mark.parametrize("member", ["actor_id", "created_at", "crc32"])
def test_a_member_that_changed_since_it_was_written_is_noticed(member):
    value = json.loads(encode_intent(PLAN))
    part = value if member == "crc32" else value["commit"]
    part[member] = "somebody" if member == "actor_id" else part[member] + 1
    with pytest.raises(ManifestCorrupt, match="its checksum does not match"):
        decode(value)


def test_an_unknown_member_is_refused():
    with pytest.raises(ManifestCorrupt, match="crc33"):
        decode({**body(), "crc33": 7})


@pytest.mark.parametrize("part", ["changes", "requires"])
def test_an_unknown_member_is_refused_in_a_part(part):
    value = body()
    value[part]["unheard_of"] = 7
    with pytest.raises(ManifestCorrupt, match="unheard_of"):
        decode(value)


def decode(value: object) -> WritePlan:
    return decode_intent(json.dumps(value).encode(), PATH)


TABLE_MEMBERS = sorted(body()["changes"]["moved"][0])


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"7", b"null", b'"text"', b"{}"])
def test_a_file_that_is_no_intent_is_refused(data):
    with pytest.raises(ManifestCorrupt, match="is not an intent"):
        decode_intent(data, PATH)


@pytest.mark.parametrize("version", [5, 99, "4", None, 4.5, True, 3, 2, 1, 0, -1])
def test_a_format_this_build_does_not_know_is_refused(version):
    with pytest.raises(ManifestCorrupt, match="format"):
        decode(body() | {"schema_version": version})


def test_a_newer_format_is_refused_before_anything_else_of_it_is_read():
    with pytest.raises(ManifestCorrupt, match="newer than the maximum 4"):
        decode({"schema_version": 5, "shape": "unheard of"})


def list_required(kind: type[msgspec.Struct], *path: str) -> list[tuple[str, ...]]:
    """List the members without a default of a struct at a path inside the plan."""
    return [(*path, field.name) for field in structs.fields(kind) if field.required]


REQUIRED = [
    *list_required(WritePlan),
    *list_required(WriteRequirements, "requires"),
    *list_required(CommitMetadata, "commit"),
]


def part_of(value: dict, path: tuple[str, ...]) -> dict:
    for name in path:
        value = value[name]
    return value


@pytest.mark.parametrize("path", REQUIRED, ids=".".join)
def test_an_intent_without_a_member_is_refused(path):
    value = body()
    del part_of(value, path[:-1])[path[-1]]
    with pytest.raises(ManifestCorrupt, match="not a complete intent"):
        decode(value)


def test_an_intent_that_does_not_say_whether_it_commits_does():
    value = body()
    del value["records_commit"]
    assert decode(value).records_commit


@pytest.mark.parametrize("member", TABLE_MEMBERS)
def test_an_intent_whose_table_lacks_a_member_is_refused(member):
    value = body()
    del value["changes"]["moved"][0][member]
    with pytest.raises(ManifestCorrupt, match="not a complete intent"):
        decode(value)


WRONG: dict[tuple[str, ...], list[Any]] = {
    ("operation_id",): [None, 7, ["x"]],
    ("rollback_commit_id",): [None, 7],
    ("writer_kind",): [None, "Vandal", 7],
    ("changes",): [None, [], "x"],
    ("changes", "moved"): [None, {}, "x", [7], [None]],
    ("changes", "adopted"): [None, {}, "x", [7], [None]],
    ("requires",): [None, [], "x"],
    ("requires", "graph"): [None, 7],
    ("requires", "root"): [None, 7],
    ("requires", "branch"): [None, 7],
    ("requires", "incarnation"): [7, ["x"]],
    ("requires", "own_head"): [7, []],
    ("requires", "contract_hash"): [None, 7],
    ("requires", "expected_head"): [7, []],
    ("requires", "sole_branch"): [None, "false", 0],
    ("commit",): [None, [], "x"],
    ("commit", "commit_id"): [None, 7],
    ("commit", "actor_id"): [7, {}],
    ("commit", "created_at"): [None, "7", 7.5, True],
    ("commit", "details"): [None, 7, []],
    ("records_commit",): [None, "false", 0],
    ("history",): [None, {}, [7]],
}


@pytest.mark.parametrize(
    ("path", "wrong"), [(path, wrong) for path, values in WRONG.items() for wrong in values]
)
def test_a_member_of_the_wrong_type_is_refused_and_not_converted(path, wrong):
    value = body()
    part_of(value, path[:-1])[path[-1]] = wrong
    with pytest.raises(ManifestCorrupt):
        decode(value)


WRONG_IN_TABLE: dict[str, list[Any]] = {
    "identity": [None, 7, {}, {"stable_table_id": 1}, {"stable_table_id": "1"}],
    "table_key": [None, 7, "A", "fish:A", "node:", ":A"],
    "path": [None, 7, "nodes/elsewhere", "../outside"],
    "branch": [7, "not a ulid", "../../outside"],
    "base_version": [None, "4", 4.5, True, -1],
    "transaction": [None, 7],
    "is_fork": [None, "false", 0],
}


@pytest.mark.parametrize(
    ("member", "value"),
    [(member, value) for member, values in WRONG_IN_TABLE.items() for value in values],
)
def test_a_table_member_that_is_wrong_is_refused_and_not_converted(member, value):
    changed = body()
    changed["changes"]["moved"][0][member] = value
    with pytest.raises(ManifestCorrupt):
        decode(changed)


def test_a_fork_needs_a_branch_of_its_own():
    changed = body()
    changed["changes"]["moved"][0]["is_fork"] = True
    with pytest.raises(ManifestCorrupt, match="fork"):
        decode(changed)


def test_an_intent_under_a_name_that_is_not_its_own_is_refused():
    with pytest.raises(ManifestCorrupt, match="holds the intent of"):
        decode(body() | {"operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FA9"})


def test_an_intent_that_ends_both_ways_under_one_commit_is_refused():
    with pytest.raises(ManifestCorrupt, match="one commit id for both outcomes"):
        decode(body() | {"rollback_commit_id": PLAN.commit.commit_id})


def test_an_intent_that_names_a_table_twice_is_refused():
    value = body()
    value["changes"]["moved"] *= 2
    with pytest.raises(ManifestCorrupt, match="names a table twice"):
        decode(value)


def named(number: int) -> WritePlan:
    return structs.replace(PLAN, operation_id=OperationId(f"01ARZ3NDEKTSV4RRFFQ69G5FA{number}"))


def store_of_intents(*numbers: int) -> MemoryObjectStore:
    store = MemoryObjectStore()
    for number in numbers:
        write_intent(store, named(number))
    return store


def test_intents_come_in_the_order_of_their_operations():
    store = store_of_intents(3, 1, 2)
    assert list_operations(store) == [named(number).operation_id for number in (1, 2, 3)]
    found = [intent.operation_id for intent in list_pending_intents(store)]
    assert found == list_operations(store)


def test_an_intent_that_vanishes_while_it_is_read_is_recovered_already():
    store = store_of_intents(1, 2, 3)
    found = []
    for intent in list_pending_intents(store):
        found.append(intent.operation_id)
        delete_intent(store, named(2).operation_id)
    assert found == [named(1).operation_id, named(3).operation_id]


def test_files_that_are_no_intents_by_name_are_ignored():
    store = store_of_intents(1)
    for name in ("README", "x.json.tmp", ".json", "quarantine/01ARZ3NDEKTSV4RRFFQ69G5FA2.json"):
        store.put(f"{RECOVERY}/{name}", b"garbage")
    assert list_operations(store) == [named(1).operation_id]


def test_removing_an_intent_twice_is_fine():
    store = store_of_intents(1)
    for _ in range(2):
        delete_intent(store, named(1).operation_id)
    assert list_operations(store) == []


def test_a_table_is_moved_or_adopted_and_not_both():
    adopted = SetVersion(IDENTITY, TableKey("node:A"), 3, None, 1)
    changes = structs.replace(PLAN.changes, adopted=(adopted,))
    with pytest.raises(ManifestCorrupt, match="names a table twice"):
        decode_intent(encode_intent(structs.replace(PLAN, changes=changes)), PATH)
