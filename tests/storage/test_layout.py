"""Paths below a graph root."""

from __future__ import annotations

from omnigraph.identity import (
    EntityKind,
    OperationId,
    TableIdentity,
    TableIncarnationId,
    TypeId,
)
from omnigraph.storage import layout


def test_a_table_is_stored_under_its_identity():
    identity = TableIdentity(TypeId(0x2A), TableIncarnationId(1))
    assert layout.make_table_path(EntityKind.EDGE, identity) == (
        "edges/000000000000002a-0000000000000001"
    )


def test_a_branch_ref_is_one_file_whatever_the_name():
    assert layout.make_record_path(layout.BRANCHES, "team/a.b") == "_refs/branches/team%2Fa.b.json"
    assert layout.find_name("team%2Fa.b.json") == "team/a.b"
    assert layout.find_name("team%2Fa.b") is None
    assert layout.find_name("team%2fa.json") is None


def test_intents_are_found_by_their_operation():
    operation = OperationId("01ARZ3NDEKTSV4RRFFQ69G5FAV")
    path = layout.make_intent_path(operation)
    assert path == "__recovery/01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    assert layout.find_operation(path.rpartition("/")[2]) == operation
    assert layout.make_quarantined_intent_path(operation) == (
        "__recovery/quarantine/01ARZ3NDEKTSV4RRFFQ69G5FAV.json"
    )
    assert layout.find_operation("notes.txt") is None
    assert layout.find_operation(".json") is None


def test_names_of_the_system_do_not_meet():
    names = {
        layout.MANIFEST,
        layout.RECOVERY,
        layout.STAGING,
        layout.INIT_CLAIM,
        layout.WRITER_LOCK,
        layout.WRITER_QUEUE_LOCK,
        layout.WRITER_LEASE,
        layout.probe_path("x"),
        *layout.SCHEMA_FILES,
        *(layout.make_tables_folder(kind) for kind in EntityKind),
        layout.BRANCHES,
    }
    assert len(names) == 14
    assert layout.make_staging_path("x") == "__staging/x"
