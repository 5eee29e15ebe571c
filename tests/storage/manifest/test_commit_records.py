"""Rows of commits and recovery audits: they are read as they were written, or refused."""

from __future__ import annotations

import json

import pytest

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import CommitId, OperationId
from omnigraph.storage.manifest.commit_records import (
    CommitRecord,
    MergedState,
    MergedTable,
    RecoveryAudit,
    RecoveryKind,
    TableOutcome,
    decode_audit,
    decode_commit,
    encode_audit,
    encode_commit,
)
from omnigraph.storage.manifest.manifest_state import Row
from omnigraph.wire.commit_results import RowCounts

FIRST = CommitRecord(
    commit_id=CommitId("01A"),
    created_at=1,
    branch="main",
    manifest_version=1,
    parent_commit_id=None,
)
MERGE = CommitRecord(
    commit_id=CommitId("01B"),
    actor_id="ada",
    created_at=2,
    branch="review",
    manifest_version=7,
    parent_commit_id=CommitId("01A"),
    merged_parent_commit_id=CommitId("01C"),
    incarnation="01J9Z3N8Q4X7Y2K5M6P0R1S3T8",
    origin="stream-1",
    details={"message": "wanted", "merge": {"resolved": {"ours": 1}}},
    merged=MergedState("01e", (MergedTable("node:Person", "nodes/1", None, 3, "01e", 4),)),
    kind="branch_merge",
    tables=(RowCounts("node:Person", 1, 2, 3),),
)
AUDIT = RecoveryAudit(
    OperationId("01F"),
    RecoveryKind.ROLLED_BACK,
    "Load",
    CommitId("01G"),
    "ada",
    (TableOutcome("node:Person", 3, 5),),
    9,
)


@pytest.mark.parametrize("commit", [FIRST, MERGE], ids=["first", "merge"])
def test_a_commit_is_read_as_it_was_written(commit: CommitRecord) -> None:
    read = decode_commit(encode_commit(commit))
    assert read == commit
    assert read.shown == commit.shown


def test_a_commit_stores_no_member_it_lacks() -> None:
    metadata = json.loads(str(encode_commit(FIRST)["metadata"]))
    always = ("parent_commit_id", "merged_parent_commit_id", "actor_id", "incarnation")
    assert metadata == {"created_at": 1, **dict.fromkeys(always)}


def test_an_audit_is_read_as_it_was_written() -> None:
    assert decode_audit(encode_audit(AUDIT)) == AUDIT
    assert json.loads(str(encode_audit(AUDIT)["metadata"])) == AUDIT.wire()
    assert AUDIT.wire()["recovery_for_actor"] == "ada"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"created_at": "now"}, "created_at"),
        ({"tables": [{"inserted": 1}]}, "table_key"),
        ({"merged": {"incarnation": None}}, "tables"),
        ({"details": []}, "details"),
        ({"incarnation": "../main"}, "belongs to no branch"),
    ],
)
def test_a_commit_with_a_malformed_member_is_refused(
    change: dict[str, object], problem: str
) -> None:
    row = encode_commit(MERGE)
    metadata = json.loads(str(row["metadata"]))
    damaged: Row = {**row, "metadata": json.dumps(metadata | change)}
    with pytest.raises(ManifestCorrupt, match=problem) as found:
        decode_commit(damaged)
    assert "01B" in str(found.value)


def test_rows_without_a_document_are_refused() -> None:
    for text, problem in (("[]", "not an object"), ("{", "not JSON"), ("", "not JSON")):
        for row, decode in (
            (encode_commit(MERGE), decode_commit),
            (encode_audit(AUDIT), decode_audit),
        ):
            damaged: Row = {**row, "metadata": text}
            with pytest.raises(ManifestCorrupt, match=problem):
                decode(damaged)
    unversioned: Row = {**encode_commit(MERGE), "table_version": None}
    with pytest.raises(ManifestCorrupt, match="manifest_version"):
        decode_commit(unversioned)
