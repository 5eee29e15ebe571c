"""Finding a planned transaction in the history of its table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from omnigraph.identity import TableIdentity, TableIncarnationId, TableKey, TypeId
from omnigraph.storage.recovery.recovery_decision import Ownership, find_ownership
from omnigraph.storage.tables.table_branches import TableVersionRecord
from omnigraph.storage.write_plan import OPERATION_PROPERTY, TableMove

BASE = 4
TABLE = TableMove(
    identity=TableIdentity(TypeId(1), TableIncarnationId(1)),
    table_key=TableKey("node:A"),
    path="nodes/a",
    branch=None,
    base_version=BASE,
    transaction="ours",
    is_fork=False,
)


def ours(version: int) -> TableVersionRecord:
    return TableVersionRecord(version, "Update", "ours", BASE)


def theirs(version: int) -> TableVersionRecord:
    return TableVersionRecord(version, "Append", f"theirs-{version}", version - 1)


def restore(version: int, to: int) -> TableVersionRecord:
    return TableVersionRecord(version, "Restore", f"restore-{version}", version - 1, {}, to)


def ended(version: int) -> TableVersionRecord:
    properties = {OPERATION_PROPERTY: "over"}
    return TableVersionRecord(version, "CreateIndex", f"over-{version}", version - 1, properties)


def late_restore(version: int, to: int) -> TableVersionRecord:
    properties = {OPERATION_PROPERTY: "ended"}
    return replace(restore(version, to), properties=properties)


def gap(version: int) -> TableVersionRecord:
    return TableVersionRecord(version, None)


@pytest.mark.parametrize(
    ("history", "pin", "expected"),
    [
        pytest.param([], BASE, Ownership.NONE, id="nothing happened"),
        pytest.param([theirs(5)], BASE, Ownership.NONE, id="only others wrote"),
        pytest.param([restore(5, BASE)], BASE, Ownership.NONE, id="a restore without us"),
        pytest.param([ours(5)], BASE, Ownership.AT_HEAD, id="in place"),
        pytest.param([theirs(5), ours(6)], 5, Ownership.AT_HEAD, id="rebased"),
        pytest.param([ours(5), theirs(6)], BASE, Ownership.BEFORE_HEAD, id="written over"),
        pytest.param([ours(5), restore(6, BASE)], BASE, Ownership.COMPENSATED, id="undone"),
        pytest.param(
            [theirs(5), ours(6), restore(7, 5)], 5, Ownership.COMPENSATED, id="undone to the winner"
        ),
        pytest.param(
            [ours(5), restore(6, BASE), restore(7, BASE)],
            BASE,
            Ownership.COMPENSATED,
            id="undone twice",
        ),
        pytest.param(
            [ours(5), restore(6, 2)], BASE, Ownership.BEFORE_HEAD, id="restored to something else"
        ),
        pytest.param(
            [ours(5), restore(6, BASE), theirs(7)],
            BASE,
            Ownership.BEFORE_HEAD,
            id="undone and written over",
        ),
        pytest.param(
            [ours(5), restore(6, BASE)], None, Ownership.COMPENSATED, id="undone on a fork"
        ),
        pytest.param([gap(5)], BASE, Ownership.UNVERIFIABLE, id="a gap"),
        pytest.param([gap(5), ours(6)], BASE, Ownership.UNVERIFIABLE, id="a gap below ours"),
        pytest.param([ours(5), gap(6)], BASE, Ownership.UNVERIFIABLE, id="a gap above ours"),
        pytest.param([gap(5), theirs(6)], 6, Ownership.NONE, id="a gap below what is shown"),
        pytest.param([gap(5), ours(6)], 5, Ownership.AT_HEAD, id="ours above what is shown"),
        pytest.param([gap(5), gap(6)], 5, Ownership.UNVERIFIABLE, id="a gap beyond what is shown"),
        pytest.param([gap(5)], None, Ownership.UNVERIFIABLE, id="a gap where nothing is shown"),
    ],
)
def test_where_the_planned_transaction_stands(history, pin, expected):
    assert find_ownership(history, TABLE, pin) is expected


@pytest.mark.parametrize(
    ("history", "pin", "expected"),
    [
        pytest.param([ours(5), ended(6)], BASE, Ownership.AMONG_LATE, id="below"),
        pytest.param([ended(5), ours(6)], BASE, Ownership.AMONG_LATE, id="above"),
        pytest.param([ended(5), ours(6), ended(7)], BASE, Ownership.AMONG_LATE, id="between"),
        pytest.param([ours(5), late_restore(6, 2)], BASE, Ownership.AMONG_LATE, id="restored"),
        pytest.param(
            [ours(5), ended(6), late_restore(7, BASE)], BASE, Ownership.COMPENSATED, id="undone"
        ),
        pytest.param(
            [ours(5), late_restore(6, BASE), ended(7)],
            BASE,
            Ownership.AMONG_LATE,
            id="undone and late again",
        ),
        pytest.param(
            [theirs(5), ended(6), ours(7)], 5, Ownership.AMONG_LATE, id="above what is shown"
        ),
        pytest.param([ended(5), ours(6)], 5, Ownership.AT_HEAD, id="nothing between"),
        pytest.param(
            [theirs(5), ended(6), ours(7)], BASE, Ownership.AT_HEAD, id="and a stranger below"
        ),
        pytest.param(
            [ours(5), ended(6), theirs(7)], BASE, Ownership.BEFORE_HEAD, id="and a stranger above"
        ),
        pytest.param([ours(5), ended(6)], 5, Ownership.BEFORE_HEAD, id="ours is shown"),
        pytest.param([ours(5), ended(6)], BASE - 1, Ownership.BEFORE_HEAD, id="not all was read"),
        pytest.param([ours(5), ended(6)], None, Ownership.BEFORE_HEAD, id="nothing is shown"),
        pytest.param([ended(5)], BASE, Ownership.NONE, id="nothing of ours"),
    ],
)
def test_its_position_is_found_among_versions_of_ended_operations(history, pin, expected):
    assert find_ownership(history, TABLE, pin, frozenset({"over"})) is expected


def test_a_gap_in_a_fork_is_never_mistaken_for_the_work_of_others():
    """Foreign versions there are removed with the fork."""
    fork = structs.replace(TABLE, branch="01ARZ3NDEKTSV4RRFFQ69G5FAV", is_fork=True)
    assert find_ownership([gap(5), theirs(6)], fork, 6) is Ownership.UNVERIFIABLE
