"""Decisions about an interrupted write, as tables of the state found."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest

from omnigraph.identity import TableIdentity, TableIncarnationId, TableKey, TypeId
from omnigraph.storage.recovery.recovery_decision import (
    IntentStatus,
    ObservedTable,
    Ownership,
    RecoveryDecision,
    TableClass,
    classify,
    decide,
    find_ownership,
)
from omnigraph.storage.tables.table_branches import TableVersionRecord
from omnigraph.storage.write_plan import OPERATION_PROPERTY, TableMove

BASE = 4
ALIVE = IntentStatus(is_branch_alive=True)
MOVED_ON = IntentStatus(is_branch_alive=True, is_authority_unchanged=False)
C = TableClass
OURS = {C.COMPLETE, C.MISPLACED, C.COMPENSATED, C.AMONG_LATE}
BROKEN = {C.INVARIANT_BROKEN, C.UNVERIFIABLE, C.BURIED}


def observed(
    ownership: Ownership, head: int | None, pin: int | None = BASE, *, is_fork: bool = False
) -> ObservedTable:
    identity = TableIdentity(TypeId(1), TableIncarnationId(1))
    branch = "01ARZ3NDEKTSV4RRFFQ69G5FAV" if is_fork else None
    table = TableMove(
        identity=identity,
        table_key=TableKey("node:A"),
        path="nodes/a",
        branch=branch,
        base_version=BASE,
        transaction="ours",
        is_fork=is_fork,
    )
    return ObservedTable(table, head, ownership, pin)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param(observed(Ownership.NONE, 4), C.NO_MOVEMENT, id="at its pin"),
        pytest.param(observed(Ownership.NONE, None, None), C.NO_MOVEMENT, id="no such fork"),
        pytest.param(
            observed(Ownership.NONE, 4, None, is_fork=True), C.NO_MOVEMENT, id="untouched fork"
        ),
        pytest.param(
            observed(Ownership.NONE, 6, 6), C.NO_MOVEMENT, id="the graph moved on without us"
        ),
        pytest.param(observed(Ownership.NONE, 5), C.FOREIGN_DRIFT, id="foreign version"),
        pytest.param(
            observed(Ownership.NONE, 5, None, is_fork=True),
            C.FOREIGN_DRIFT,
            id="foreign version on our fork",
        ),
        pytest.param(observed(Ownership.AT_HEAD, 5), C.COMPLETE, id="ours, in place"),
        pytest.param(
            observed(Ownership.AT_HEAD, 5, None, is_fork=True), C.COMPLETE, id="ours, on a fork"
        ),
        pytest.param(observed(Ownership.AT_HEAD, 5, 5), C.COMPLETE, id="ours, and shown"),
        pytest.param(
            observed(Ownership.AT_HEAD, 6, 5), C.MISPLACED, id="ours, on top of a published one"
        ),
        pytest.param(
            observed(Ownership.AT_HEAD, 6), C.BURIED, id="ours, on top of an unpublished one"
        ),
        pytest.param(
            observed(Ownership.AT_HEAD, 7, 5), C.BURIED, id="ours, on top of published and not"
        ),
        pytest.param(observed(Ownership.COMPENSATED, 6), C.COMPENSATED, id="ours, undone"),
        pytest.param(observed(Ownership.BEFORE_HEAD, 6), C.BURIED, id="ours, with one on top"),
        pytest.param(
            observed(Ownership.AMONG_LATE, 6), C.AMONG_LATE, id="ours, and ended operations"
        ),
        pytest.param(observed(Ownership.UNVERIFIABLE, 9), C.UNVERIFIABLE, id="a gap"),
        pytest.param(
            observed(Ownership.NONE, 3), C.INVARIANT_BROKEN, id="the graph shows what is not there"
        ),
        pytest.param(
            observed(Ownership.UNVERIFIABLE, 3), C.INVARIANT_BROKEN, id="the same, unreadable"
        ),
    ],
)
def test_a_table_is_classified_by_its_head_its_owner_and_its_pin(table, expected):
    assert classify(table) is expected


def test_every_ownership_is_classified_wherever_head_and_pin_are():
    for ownership, head, pin in product(Ownership, (None, *range(8)), (None, *range(8))):
        found = classify(observed(ownership, head, pin))
        assert isinstance(found, TableClass)
        if head is not None and pin is not None and head < pin:
            assert found is C.INVARIANT_BROKEN
        if found is C.COMPLETE:
            assert head == BASE + 1


D = RecoveryDecision


@pytest.mark.parametrize(
    ("classes", "outlook", "expected"),
    [
        ([], ALIVE, D.ABANDON),
        ([C.NO_MOVEMENT], ALIVE, D.ABANDON),
        ([C.FOREIGN_DRIFT], ALIVE, D.ABANDON),
        ([C.NO_MOVEMENT, C.FOREIGN_DRIFT], MOVED_ON, D.ABANDON),
        ([C.COMPLETE], ALIVE, D.ROLL_FORWARD),
        ([C.COMPLETE, C.COMPLETE], ALIVE, D.ROLL_FORWARD),
        ([C.COMPLETE], MOVED_ON, D.ROLL_BACK),
        ([C.COMPLETE, C.NO_MOVEMENT], ALIVE, D.ROLL_BACK),
        ([C.COMPLETE, C.FOREIGN_DRIFT], ALIVE, D.ROLL_BACK),
        ([C.COMPLETE, C.COMPENSATED], ALIVE, D.ROLL_BACK),
        ([C.COMPENSATED], ALIVE, D.ROLL_BACK),
        ([C.COMPENSATED, C.NO_MOVEMENT], MOVED_ON, D.ROLL_BACK),
        ([C.MISPLACED], ALIVE, D.ROLL_BACK),
        ([C.MISPLACED, C.COMPLETE], MOVED_ON, D.ROLL_BACK),
        ([C.AMONG_LATE], ALIVE, D.ROLL_BACK),
        ([C.AMONG_LATE, C.COMPLETE], ALIVE, D.ROLL_BACK),
        ([C.AMONG_LATE, C.NO_MOVEMENT], MOVED_ON, D.ROLL_BACK),
        ([C.AMONG_LATE, C.BURIED], ALIVE, D.REFUSE),
        ([C.BURIED], ALIVE, D.REFUSE),
        ([C.COMPLETE, C.BURIED], ALIVE, D.REFUSE),
        ([C.COMPLETE, C.UNVERIFIABLE], ALIVE, D.REFUSE),
        ([C.NO_MOVEMENT, C.INVARIANT_BROKEN], ALIVE, D.REFUSE),
        ([C.COMPLETE], IntentStatus(is_branch_alive=True, is_published=True), D.FINISH_PUBLISHED),
        ([C.BURIED], IntentStatus(is_branch_alive=True, is_published=True), D.FINISH_PUBLISHED),
        (
            [C.COMPENSATED],
            IntentStatus(is_branch_alive=True, is_rolled_back=True),
            D.FINISH_ROLLED_BACK,
        ),
        (
            [C.NO_MOVEMENT],
            IntentStatus(is_branch_alive=True, is_rolled_back=True),
            D.FINISH_ROLLED_BACK,
        ),
        (
            [C.COMPLETE],
            IntentStatus(is_branch_alive=True, is_published=True, is_rolled_back=True),
            D.REFUSE,
        ),
        ([], IntentStatus(is_branch_alive=False), D.DISCARD_BRANCH),
        ([C.BURIED], IntentStatus(is_branch_alive=False), D.DISCARD_BRANCH),
    ],
)
def test_the_decision_for_an_interrupted_write(classes, outlook, expected):
    assert decide(classes, outlook).decision is expected
    assert decide(classes[::-1], outlook).decision is expected


def all_outlooks():
    for flags in product((False, True), repeat=5):
        yield IntentStatus(*flags)


def all_findings():
    return chain.from_iterable(combinations(TableClass, size) for size in range(len(C) + 1))


def test_every_decision_destroys_nothing_and_leaves_nothing_half_done():
    for found, outlook in product(all_findings(), all_outlooks()):
        seen, verdict = set(found), decide(found, outlook)
        assert verdict.reason
        match verdict.decision:
            case D.ROLL_FORWARD:
                assert seen == {C.COMPLETE}
                assert outlook.is_authority_unchanged
            case D.ROLL_BACK:
                assert seen & OURS
                assert not seen & BROKEN
            case D.ABANDON:
                assert not seen & OURS
                assert not seen & BROKEN
            case D.REFUSE:
                is_contradiction = outlook.is_published and outlook.is_rolled_back
                assert seen & BROKEN or is_contradiction or outlook.is_branch_lost
            case D.FINISH_PUBLISHED:
                assert outlook.is_published
            case D.FINISH_ROLLED_BACK:
                assert outlook.is_rolled_back
            case D.DISCARD_BRANCH:
                assert not outlook.is_branch_alive
        if verdict.decision in (D.ROLL_FORWARD, D.ROLL_BACK, D.ABANDON):
            assert outlook.is_branch_alive
            assert not outlook.is_published
            assert not outlook.is_rolled_back


def make_record(kind: str, version: int) -> TableVersionRecord:
    uuid, before = f"{kind}-{version}", version - 1
    match kind:
        case "ours":
            return TableVersionRecord(version, "Update", "ours", before, {OPERATION_PROPERTY: "us"})
        case "ended":
            return TableVersionRecord(version, "Append", uuid, before, {OPERATION_PROPERTY: "over"})
        case "late restore":
            ended = {OPERATION_PROPERTY: "ended"}
            return TableVersionRecord(version, "Restore", uuid, before, ended, 2)
        case "pending":
            return TableVersionRecord(version, "Append", uuid, before, {OPERATION_PROPERTY: "them"})
        case "foreign":
            return TableVersionRecord(version, "Append", uuid, before)
        case "foreign restore":
            return TableVersionRecord(version, "Restore", uuid, before, {}, 2)
    return TableVersionRecord(version, None)


NOBODYS = {"ended", "late restore"}
KINDS = ("ours", *sorted(NOBODYS), "pending", "foreign", "foreign restore", "unreadable")


def all_histories():
    for size in range(1, 5):
        yield from (kinds for kinds in product(KINDS, repeat=size) if kinds.count("ours") < 2)


def test_a_write_is_undone_among_ended_operations_and_never_with_the_work_of_others():
    """All that a restore to the pin takes away is ours, or of operations that are over."""
    for kinds, is_fork in product(all_histories(), (False, True)):
        history = [make_record(kind, BASE + 1 + place) for place, kind in enumerate(kinds)]
        head = BASE + len(kinds)
        for pin in (None, *range(BASE - 1, head + 1)):
            fork = observed(Ownership.NONE, None, is_fork=is_fork).move
            owner = find_ownership(history, fork, pin, frozenset({"over"}))
            found = classify(observed(owner, head, pin, is_fork=is_fork))
            ahead = kinds if pin is None else kinds[max(pin - BASE, 0) :]
            if decide([found], MOVED_ON).decision is D.ROLL_BACK:
                assert "ours" in ahead or pin == head
                assert set(ahead) <= NOBODYS | {"ours"}
            is_known = not is_fork and pin is not None and pin >= BASE
            if is_known and "ours" in ahead and set(ahead) <= NOBODYS | {"ours"}:
                assert decide([found], ALIVE).decision in (D.ROLL_BACK, D.ROLL_FORWARD)
