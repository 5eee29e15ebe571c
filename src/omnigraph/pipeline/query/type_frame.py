"""All rows of one type as a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.pipeline.query.kernels import Part, ScanTask
from omnigraph.pipeline.query.spark_scan import read_in_tasks
from omnigraph.pipeline.table_scan import plan_partitions
from omnigraph.pipeline.tasks import allow_missing_pandas
from omnigraph.pipeline.type_scan import choose_columns, scan_type
from omnigraph.storage.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def build_type_frame(
    session: SparkSession,
    snapshot: Snapshot,
    catalog: Catalog,
    type_: NodeType | EdgeType,
    columns: Sequence[str] | None,
    where: str | None,
) -> DataFrame:
    """The rows of a type that pass a condition, read when the frame is used."""
    allow_missing_pandas()
    scan = scan_type(snapshot, catalog, type_, columns, where)
    rows = {fragment.id: fragment.rows for fragment in scan.table.fragments()}
    tasks = [
        ScanTask(
            parts=(
                Part(
                    scan=scan,
                    fragments=group,
                    outputs=scan.columns,
                    rows=sum(rows[id] for id in group),
                ),
            )
        )
        for group in plan_partitions(scan.table)
    ]
    return read_in_tasks(session, tasks, choose_columns(build_logical_schema(type_), columns))
