"""Policies: which commits stay readable, and how they are written."""

from __future__ import annotations

import json

import pytest

from omnigraph.errors import BadRequest
from omnigraph.identity import CommitId
from omnigraph.maintenance.retention import Retention
from omnigraph.storage.layout import ORPHAN_CANDIDATES
from omnigraph.storage.manifest.commit_records import CommitRecord
from omnigraph.storage.orphans import OrphanCandidates
from omnigraph.types.temporal import parse_duration
from storage.memory_store import MemoryObjectStore

NOW = 1_000_000_000
SECOND = 1_000_000


def commit(number: int, age_s: float) -> CommitRecord:
    return CommitRecord(
        commit_id=CommitId(f"c{number}"),
        branch="main",
        manifest_version=number,
        parent_commit_id=None,
        created_at=NOW - int(age_s * SECOND),
    )


COMMITS = [commit(10 - n, age_s=n * 10) for n in range(10)]


@pytest.mark.parametrize(
    ("keep", "older_than", "expected"),
    [
        (1, None, 1),
        (0, None, 1),
        (4, None, 4),
        (99, None, 10),
        (None, 55, 6),
        (None, 0, 3),
        (None, 9999, 10),
        (8, 15, 8),
        (2, 75, 8),
        (1, 0, 3),
    ],
)
def test_commits_that_either_limit_protects_are_retained(keep, older_than, expected):
    kept = Retention(keep, older_than).list_retained(COMMITS, NOW)
    assert kept == COMMITS[:expected]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("12h", 43_200),
        ("7d", 604_800),
        ("2w", 1_209_600),
        (" 1D ", 86_400),
    ],
)
def test_durations_are_a_number_and_a_unit(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "1.5h", "7 d", "1y", "9" * 13 + "s"])
def test_anything_else_is_no_duration(text):
    with pytest.raises(BadRequest, match="such as 7d"):
        parse_duration(text)


def test_a_policy_can_be_read_aloud():
    assert str(Retention(5)) == "keep the newest 5 commits of every branch"
    assert "younger than 7 days" in str(Retention(None, 604_800.0))


def test_something_is_due_once_it_was_seen_long_enough_ago():
    store = MemoryObjectStore()
    first = OrphanCandidates(store, lambda: NOW, grace_s=60)
    assert first.due(["a", "b"]) == []
    first.save()
    early = OrphanCandidates(store, lambda: NOW + 59 * SECOND, grace_s=60)
    assert early.due(["a", "c"]) == []
    early.save()
    late = OrphanCandidates(store, lambda: NOW + 60 * SECOND, grace_s=60)
    assert late.due(["a", "b", "c"]) == ["a"], "b had a reference in between, c is too young"
    late.forget(["a"])
    late.save()
    assert OrphanCandidates(store, lambda: NOW + 999 * SECOND, grace_s=60).due(["a", "c"]) == ["c"]


def test_notes_that_cannot_be_read_only_delay():
    store = MemoryObjectStore()
    store.put(ORPHAN_CANDIDATES, b"no json")
    candidates = OrphanCandidates(store, lambda: NOW, grace_s=0)
    assert candidates.due(["a"]) == []
    candidates.save()
    assert OrphanCandidates(store, lambda: NOW, grace_s=0).due(["a"]) == ["a"]


def test_the_candidates_are_empty_when_there_are_no_orphans():
    store = MemoryObjectStore()
    candidates = OrphanCandidates(store, lambda: NOW, grace_s=0)
    candidates.due(["a"])
    candidates.save()
    again = OrphanCandidates(store, lambda: NOW, grace_s=0)
    again.due([])
    again.save()
    assert json.loads(store.get(ORPHAN_CANDIDATES))["first_seen"] == {}
