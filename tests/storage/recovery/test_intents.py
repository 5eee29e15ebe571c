"""Intents as they are written down, and what is refused instead of guessed."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from omnigraph.storage.manifest.manifest_changes import SetVersion
from omnigraph.storage.recovery.intents import (
    Intent,
    TableIntent,
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
def table_intents(draw):
    kind = draw(st.sampled_from(EntityKind))
    identity = TableIdentity(TypeId(draw(NUMBERS)), TableIncarnationId(draw(NUMBERS)))
    is_fork = draw(st.booleans())
    return TableIntent(
        identity=identity,
        table_key=TableKey(f"{kind}:{draw(NAMES)}"),
        path=make_table_path(kind, identity),
        branch=draw(ULIDS) if is_fork else draw(st.none() | ULIDS),
        base_version=draw(NUMBERS),
        transaction=draw(NAMES),
        is_fork=is_fork,
    )


@st.composite
def intents(draw):
    commit, rollback = draw(st.lists(ULIDS, min_size=2, max_size=2, unique=True))
    return Intent(
        operation_id=OperationId(draw(ULIDS)),
        root=ROOT,
        writer_kind=draw(st.sampled_from(WriterKind)),
        branch=BranchName(draw(NAMES)),
        incarnation=draw(st.none() | ULIDS),
        tables=tuple(
            draw(
                st.lists(
                    table_intents(),
                    max_size=4,
                    unique_by=(lambda t: t.identity, lambda t: t.table_key),
                )
            )
        ),
        commit_id=CommitId(commit),
        rollback_commit_id=CommitId(rollback),
        actor_id=draw(st.none() | NAMES),
        created_at=draw(NUMBERS),
        own_head=draw(st.none() | ULIDS.map(CommitId)),
        contract_hash=draw(NAMES),
        merged_parent_commit_id=draw(st.none() | ULIDS.map(CommitId)),
        details=draw(st.dictionaries(NAMES, st.none() | NAMES | NUMBERS, max_size=2)),
    )


@given(intents())
def test_an_intent_is_read_as_it_was_written(intent):
    found = decode_intent(encode_intent(intent), make_intent_path(intent.operation_id))
    assert found == intent
    assert found.table_keys == tuple(table.table_key for table in intent.tables)
    assert all(table.target_version == table.base_version + 1 for table in found.tables)


IDENTITY = TableIdentity(TypeId(1), TableIncarnationId(2))
INTENT = Intent(
    operation_id=OperationId("01ARZ3NDEKTSV4RRFFQ69G5FA1"),
    root=ROOT,
    writer_kind=WriterKind.LOAD,
    branch=BranchName("main"),
    incarnation=None,
    tables=(
        TableIntent(
            identity=IDENTITY,
            table_key=TableKey("node:A"),
            path=make_table_path(EntityKind.NODE, IDENTITY),
            branch=None,
            base_version=4,
            transaction="uuid",
            is_fork=False,
        ),
    ),
    commit_id=CommitId("01ARZ3NDEKTSV4RRFFQ69G5FA2"),
    rollback_commit_id=CommitId("01ARZ3NDEKTSV4RRFFQ69G5FA3"),
    actor_id="ada",
    created_at=7,
    own_head=None,
    contract_hash="hash",
)
PATH = make_intent_path(INTENT.operation_id)


def body() -> dict:
    """An intent as earlier builds wrote it, without a checksum that any change would break."""
    value = json.loads(encode_intent(INTENT))
    del value["crc32"]
    return value


@pytest.mark.parametrize("member", ["actor_id", "created_at", "crc32"])
def test_a_member_that_changed_since_it_was_written_is_noticed(member):
    value = json.loads(encode_intent(INTENT))
    value[member] = "somebody" if member == "actor_id" else value[member] + 1
    with pytest.raises(ManifestCorrupt, match="checksum differs"):
        decode(value)


def test_a_member_nobody_writes_is_refused():
    with pytest.raises(ManifestCorrupt, match="crc33"):
        decode({**body(), "crc33": 7})


def decode(value: object) -> Intent:
    return decode_intent(json.dumps(value).encode(), PATH)


MEMBERS = sorted(body())
TABLE_MEMBERS = sorted(body()["tables"][0])


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b"7", b"null", b'"text"', b"{}"])
def test_a_file_that_is_no_intent_is_refused(data):
    with pytest.raises(ManifestCorrupt, match="is not an intent"):
        decode_intent(data, PATH)


@pytest.mark.parametrize("version", [4, 99, "1", None, 1.5, True, 0, -1])
def test_a_format_this_build_does_not_know_is_refused(version):
    with pytest.raises(ManifestCorrupt, match="format"):
        decode(body() | {"schema_version": version})


def test_a_newer_format_is_refused_before_anything_else_of_it_is_read():
    with pytest.raises(ManifestCorrupt, match="newer than the maximum 3"):
        decode({"schema_version": 4, "shape": "unheard of"})


REQUIRED = [f.name for f in fields(Intent) if f.default is MISSING and f.default_factory is MISSING]


@pytest.mark.parametrize("member", REQUIRED)
def test_an_intent_without_a_member_is_refused(member):
    value = body()
    del value[member]
    with pytest.raises(ManifestCorrupt, match="not a complete intent"):
        decode(value)


def test_an_intent_that_does_not_say_whether_it_commits_does():
    value = body()
    del value["records_commit"]
    assert decode(value).records_commit


@pytest.mark.parametrize("member", TABLE_MEMBERS)
def test_an_intent_whose_table_lacks_a_member_is_refused(member):
    value = body()
    del value["tables"][0][member]
    with pytest.raises(ManifestCorrupt, match="not a complete intent"):
        decode(value)


WRONG: dict[str, list[Any]] = {
    "operation_id": [None, 7, ["x"]],
    "root": [None, 7],
    "writer_kind": [None, "Vandal", 7],
    "branch": [None, 7],
    "incarnation": [7, ["x"]],
    "tables": [None, {}, "x", [7], [None]],
    "commit_id": [None, 7],
    "rollback_commit_id": [None, 7],
    "actor_id": [7, {}],
    "created_at": [None, "7", 7.5, True],
    "own_head": [7, []],
    "contract_hash": [None, 7],
}


@pytest.mark.parametrize(
    ("member", "value"), [(member, value) for member, values in WRONG.items() for value in values]
)
def test_a_member_of_the_wrong_type_is_refused_and_not_converted(member, value):
    with pytest.raises(ManifestCorrupt):
        decode(body() | {member: value})


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
    changed["tables"][0][member] = value
    with pytest.raises(ManifestCorrupt):
        decode(changed)


def test_a_fork_needs_a_branch_of_its_own():
    changed = body()
    changed["tables"][0]["is_fork"] = True
    with pytest.raises(ManifestCorrupt, match="fork"):
        decode(changed)


def test_an_intent_of_an_earlier_build_names_no_graph_but_can_be_read():
    earlier = body()
    del earlier["graph"]
    assert decode(earlier).graph == ""


def test_an_intent_under_a_name_that_is_not_its_own_is_refused():
    with pytest.raises(ManifestCorrupt, match="holds the intent of"):
        decode(body() | {"operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FA9"})


def test_an_intent_that_ends_both_ways_under_one_commit_is_refused():
    with pytest.raises(ManifestCorrupt, match="one commit id for both outcomes"):
        decode(body() | {"rollback_commit_id": INTENT.commit_id})


def test_an_intent_that_names_a_table_twice_is_refused():
    value = body()
    value["tables"] *= 2
    with pytest.raises(ManifestCorrupt, match="names a table twice"):
        decode(value)


def named(number: int) -> Intent:
    return replace(INTENT, operation_id=OperationId(f"01ARZ3NDEKTSV4RRFFQ69G5FA{number}"))


def store_of_intents(*numbers: int) -> MemoryObjectStore:
    store = MemoryObjectStore()
    for number in numbers:
        write_intent(store, replace(named(number), root=store.identity))
    return store


def test_intents_come_in_the_order_of_their_operations():
    store = store_of_intents(3, 1, 2)
    assert list_operations(store) == [named(number).operation_id for number in (1, 2, 3)]
    found = [intent.operation_id for intent in list_pending_intents(store)]
    assert found == list_operations(store)


def test_an_intent_that_vanishes_while_we_look_is_settled_already():
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


def test_only_what_needs_the_newer_format_is_written_in_it():
    assert body()["schema_version"] == 1, "an earlier build can settle it"
    adopted = SetVersion(IDENTITY, TableKey("node:B"), 3, None, 1)
    for changed in (
        replace(INTENT, merged_parent_commit_id=INTENT.commit_id),
        replace(INTENT, details={"message": "why"}),
        replace(INTENT, tables=(), adopted=(adopted,)),
    ):
        data = encode_intent(changed)
        assert json.loads(data)["schema_version"] == 2
        assert decode_intent(data, PATH) == changed


def test_a_table_is_moved_or_adopted_and_not_both():
    adopted = SetVersion(IDENTITY, TableKey("node:A"), 3, None, 1)
    with pytest.raises(ManifestCorrupt, match="names a table twice"):
        decode_intent(encode_intent(replace(INTENT, adopted=(adopted,))), PATH)
