"""Small tables to test with, and short ways to change them."""

from __future__ import annotations

import pyarrow as pa

from omnigraph.identity import UlidSource
from omnigraph.storage.tables.indices import (
    IndexSpec,
    SegmentPlan,
    build_segment,
    describe_layout,
    stage_segments,
)
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.manifest_table import (
    RECENT_LINEAGE,
    STATE_MARK,
    ManifestTableState,
    make_state_file,
    stage_manifest,
)
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_changes, stage_create
from omnigraph.storage.tables.table import ROW_ID, UPDATED_AT, Table
from omnigraph.storage.tables.table_commit import CommittedVersion, commit_exact

SCHEMA = mark_primary_key(
    pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("value", pa.int64(), metadata={"property": "7"}),
        ],
        metadata={"stamp": "1"},
    ),
    "id",
)
CREATED_AT = "_row_created_at_version"
PROPERTIES = {"operation": "test"}

ulids = UlidSource()


def identity() -> dict:
    """The argument every staging function wants: who is asking."""
    return {"properties": PROPERTIES}


def rows(values: dict[str, int | None]) -> pa.Table:
    return pa.table({"id": list(values), "value": list(values.values())}, schema=SCHEMA)


def create(
    location: TableLocation, values: dict[str, int | None] | None = None, schema: pa.Schema = SCHEMA
) -> Table:
    """A table with one row per entry, or an empty one."""
    first = rows(values) if values else None
    return commit_exact(stage_create(location, schema, first, **identity())).table


def change(
    table: Table, upserts: dict[str, int | None] | None = None, deletes: tuple[str, ...] = ()
) -> Table:
    """The table after one commit."""
    doomed = pa.array(deletes, pa.string())
    return commit(stage_changes(table, rows(upserts or {}), doomed, **identity())).table


def commit(staged) -> CommittedVersion:
    assert staged is not None
    return commit_exact(staged)


def content(table: Table) -> dict[str, int | None]:
    found = table.scan(["id", "value"]).to_pydict()
    assert len(set(found["id"])) == len(found["id"]), "an id twice"
    return dict(zip(found["id"], found["value"], strict=True))


def row_facts(table: Table) -> dict[str, tuple[int, int, int]]:
    """For each id: row id, version that made the row, version that last changed it."""
    columns = ["id", ROW_ID, CREATED_AT, UPDATED_AT]
    found = table.scan(columns).to_pydict()
    facts = zip(*(found[name] for name in columns[1:]), strict=True)
    return dict(zip(found["id"], facts, strict=True))


def stage_indices(table: Table, specs: list[IndexSpec], **who) -> StagedTransaction | None:
    """These indices over the whole table in one version; one of the same name is replaced."""
    layout = describe_layout(table)
    everywhere = tuple(layout.rows_of)
    if not everywhere:
        return None
    present = {one.name: frozenset(s.uuid for s in one.segments) for one in layout.indices}
    plans = [
        SegmentPlan(spec, everywhere, everywhere, present.get(spec.name, frozenset()))
        for spec in specs
    ]
    return stage_segments(table, [build_segment(table, plan) for plan in plans], **who)


def stage_publish(
    base: ManifestTableState,
    state: pa.Table,
    lineage: pa.Table,
    recent_lineage: int = RECENT_LINEAGE,
) -> StagedTransaction:
    """The next publish of a ledger, with a maximum of lineage rows in the file of the state."""
    file = make_state_file(base, [state], lineage, recent_lineage)
    return stage_manifest(base, file, lineage, **identity())


def read_lineage(table: Table, columns: list[str] | None = None, filter: str = "true") -> pa.Table:
    """The lineage rows of a ledger that pass the filter."""
    names = [name for name in table.schema.names if name != STATE_MARK]
    return table.scan(columns or names, f"`{STATE_MARK}` IS NULL AND ({filter})")
