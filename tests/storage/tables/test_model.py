"""Random changes over commits, branches and maintenance, against a plain dictionary."""

from __future__ import annotations

from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lance_maintenance import compact, optimize_indices
from omnigraph.storage.tables.fragments import write_fragments
from omnigraph.storage.tables.indices import IndexSpec, LanceIndexKind
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_changes, stage_fragments, stage_overwrite
from omnigraph.storage.tables.table import ROW_ADDRESS, Table, open_table
from omnigraph.storage.tables.table_branches import create_branch
from storage.tables.table_fixtures import (
    commit,
    content,
    create,
    identity,
    row_facts,
    rows,
    stage_indices,
    ulids,
)

IDS = st.sampled_from([f"id{number}" for number in range(12)] + ["it's", "back\\slash", "é"])
VALUES = st.one_of(st.none(), st.integers(-3, 3))
CHANGES = st.dictionaries(IDS, VALUES, max_size=8)


@dataclass
class Model:
    """The expected content of one branch: its values, and the invariants of each row."""

    table: Table
    values: dict[str, int | None] = field(default_factory=dict)
    facts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Row id, version that made the row, version that last changed it."""

    def forked(self, table: Table) -> Model:
        return Model(table, dict(self.values), dict(self.facts))


class TableMachine(RuleBasedStateMachine):
    @initialize(start=CHANGES)
    def begin(self, start):
        self.folder = TemporaryDirectory()
        location = TableLocation(f"{self.folder.name}/table")
        table = create(location, start)
        self.branches = [Model(table, dict(start), row_facts(table))]
        self.current = self.branches[0]

    def teardown(self):
        if hasattr(self, "folder"):
            for model in self.branches:
                model.table.native.validate()
            self.folder.cleanup()

    @rule(upserts=CHANGES, deletes=st.sets(IDS, max_size=5))
    def change(self, upserts, deletes):
        deletes -= upserts.keys()
        staged = stage_changes(
            self.current.table, rows(upserts), pa.array(sorted(deletes), pa.string()), **identity()
        )
        gone = deletes & self.current.values.keys()
        if not upserts and not gone:
            assert staged is None
            return
        known = upserts.keys() & self.current.values.keys()
        assert staged is not None
        assert (staged.inserted, staged.updated, staged.deleted) == (
            len(upserts) - len(known),
            len(known),
            len(gone),
        )
        self.accept(commit(staged).table, upserts, gone)

    @rule(upserts=CHANGES, deletes=st.sets(IDS, max_size=3), per_file=st.integers(1, 3))
    def change_from_fragments(self, upserts, deletes, per_file):
        """The way rows arrive that other machines have written."""
        table, known = self.current.table, upserts.keys() & self.current.values.keys()
        deletes -= upserts.keys()
        found = table.lookup("id", pa.array([*known, *deletes], pa.string()), ["id", ROW_ADDRESS])
        fragments = write_fragments(table, rows(upserts), rows_per_file=per_file)
        staged = stage_fragments(
            table,
            fragments,
            removed_addresses=found.column(ROW_ADDRESS),
            replaced=len(known),
            **identity(),
        )
        if staged is None:
            assert not upserts
            return
        self.accept(commit(staged).table, upserts, deletes & self.current.values.keys())

    def accept(self, table: Table, upserts: dict, gone: set) -> None:
        model, version = self.current, table.version
        assert version == model.table.version + 1
        seen = row_facts(table)
        used = {row_id for row_id, _, _ in model.facts.values()}
        for id in gone:
            del model.values[id], model.facts[id]
        for id, value in upserts.items():
            assert seen[id][0] not in used, "a row took an id that was in use"
            model.facts[id] = (seen[id][0], version, version)
            model.values[id] = value
        model.table = table

    @rule(values=CHANGES)
    def overwrite(self, values):
        staged = stage_overwrite(self.current.table, rows(values), **identity())
        model = self.current
        model.table = commit(staged).table
        model.values, model.facts = dict(values), row_facts(model.table)
        assert {made for _, made, _ in model.facts.values()} <= {model.table.version}

    @precondition(lambda self: len(self.branches) < 4)
    @rule()
    def fork(self):
        source = self.current.table
        table = create_branch(source.location, ulids.next(), source.location.branch, source.version)
        self.branches.append(self.current.forked(table))

    @rule(choice=st.integers(0, 3))
    def switch(self, choice):
        self.current = self.branches[choice % len(self.branches)]

    @rule()
    def index(self):
        specs = [IndexSpec("by_id", "id", LanceIndexKind.BTREE)]
        staged = stage_indices(self.current.table, specs, **identity())
        if staged is not None:
            self.current.table = commit(staged).table

    @rule()
    def merge_fragments(self):
        self.advance(compact(self.current.table).version)

    @rule()
    def extend_indices(self):
        self.advance(optimize_indices(self.current.table))

    def advance(self, version: int) -> None:
        self.current.table = open_table(self.current.table.location, version)

    @invariant()
    def every_branch_holds_what_the_model_says(self):
        for model in getattr(self, "branches", []):
            assert content(model.table) == model.values
            assert row_facts(model.table) == model.facts
            assert model.table.count_rows() == len(model.values)

    @invariant()
    def every_key_is_found(self):
        if not hasattr(self, "current"):
            return
        model = self.current
        wanted = ["id0", "id1", "it's", "back\\slash", "é", "absent"]
        found = model.table.lookup("id", pa.array(wanted), ["id", "value"]).to_pydict()
        expected = {id: model.values[id] for id in wanted if id in model.values}
        assert dict(zip(found["id"], found["value"], strict=True)) == expected
        for id in wanted:
            text = f"id = '{id.replace(chr(39), chr(39) * 2)}'"
            assert model.table.count_rows(text) == (id in model.values)


TestTables = TableMachine.TestCase
TestTables.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)
