"""Several processes at once: exactly one of them gets the next version."""

from __future__ import annotations

from collections import Counter

import pytest

from omnigraph.errors import RetryableCommitConflict
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.manifest_table import read_state, stage_manifest_rows
from omnigraph.storage.tables.stage_table import stage_changes
from omnigraph.storage.tables.table import find_latest_version, open_newest
from omnigraph.storage.tables.table_branches import read_history
from omnigraph.storage.tables.table_commit import commit_exact
from storage.tables import race_workers
from storage.tables.table_fixtures import (
    SCHEMA,
    change,
    content,
    create,
    identity,
    read_lineage,
    rows,
)

ROUNDS = 25
EVERYONE = range(race_workers.PROCESSES)


def assert_one_winner(outcomes: list[str], loser: str) -> None:
    assert Counter(outcomes) == {"won": 1, loser: race_workers.PROCESSES - 1}


def create_ledger(location: TableLocation) -> None:
    first = stage_manifest_rows(
        location, SCHEMA, rows({"state": 0}), rows({"genesis": 0}), **identity()
    )
    commit_exact(first)


def content_of_state(table) -> dict:
    state = read_state(table).rows.to_pydict()
    return dict(zip(state["id"], state["value"], strict=True))


def test_exactly_one_process_creates_a_table(racers, tmp_path):
    for round in range(ROUNDS):
        location = TableLocation(str(tmp_path / f"table-{round}"))
        outcomes = racers(race_workers.create_table, *((location, racer) for racer in EVERYONE))
        assert_one_winner(outcomes, "AlreadyExists")
        table = open_newest(location)
        assert table.version == 1
        assert content(table) == {f"r{outcomes.index('won')}": outcomes.index("won")}


@pytest.mark.parametrize("start", [{}, {"a": 1}], ids=["empty table", "table with rows"])
def test_writers_of_different_rows_on_one_base_collide(racers, location, start):
    table = create(location, start)
    for _ in range(ROUNDS):
        base = table.version
        outcomes = racers(race_workers.change_table, *((location, base, r) for r in EVERYONE))
        assert_one_winner(outcomes, "RetryableCommitConflict")
        table = open_newest(location)
        assert table.version == base + 1
        assert content(table).keys() >= {f"v{base}r{outcomes.index('won')}"}
    assert len(content(table)) == ROUNDS + len(start)


def test_exactly_one_process_publishes(racers, location):
    create_ledger(location)
    for _ in range(ROUNDS):
        base = find_latest_version(location)
        outcomes = racers(race_workers.publish, *((location, base, racer) for racer in EVERYONE))
        assert_one_winner(outcomes, "RetryableCommitConflict")
        table = open_newest(location)
        assert table.version == base + 1
        assert content_of_state(table) == {"state": outcomes.index("won")}
    assert read_lineage(open_newest(location)).num_rows == ROUNDS + 1


def test_merging_the_lineage_collides_with_publishing(racers, location):
    create_ledger(location)
    published = 0
    for _ in range(ROUNDS):
        base = find_latest_version(location)
        arguments = ((location, base, racer) for racer in EVERYONE)
        outcomes = racers(race_workers.publish_or_compact, *arguments)
        assert set(outcomes) <= {"won", "RetryableCommitConflict"}
        # With too little to merge the merging racer has nothing to commit and wins beside others.
        assert outcomes[1:].count("won") <= 1
        published += outcomes[1:].count("won")
        assert find_latest_version(location) == base + 1
    lineage = read_lineage(open_newest(location), ["id"]).column("id").to_pylist()
    assert len(lineage) == len(set(lineage)) == published + 1


def test_contended_publishing_loses_no_update(racers, location):
    create_ledger(location)
    racers(race_workers.count_up, *((location, 20) for _ in EVERYONE))
    table = open_newest(location)
    total = 20 * race_workers.PROCESSES
    assert content_of_state(table) == {"state": total}
    assert table.version == total + 1
    steps = read_lineage(table, ["value"]).column("value").to_pylist()
    assert sorted(steps) == list(range(total + 1))
    assert {record.operation for record in read_history(location, 2)} == {"Update"}


def test_a_change_staged_before_another_commit_is_refused(location):
    table = create(location, {"a": 1})
    late = stage_changes(table, rows({"b": 2}), **identity())
    newer = change(table, {"c": 3})
    with pytest.raises(RetryableCommitConflict):
        commit_exact(late)
    assert find_latest_version(location) == newer.version
    assert content(newer) == {"a": 1, "c": 3}
