"""Texts to order lists by: the order lists have is that of the embedded executor."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql.types import StringType, StructField, StructType

from omnigraph.execution.read import make_comparable
from omnigraph.pipeline.query.frame import ColumnNames
from omnigraph.pipeline.query.spark_values import name_member
from omnigraph.pipeline.spark_columns import convert_from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Path = tuple[str, ...]


def add_text_columns(
    data: DataFrame, columns: Sequence[tuple[str, pa.DataType]], names: ColumnNames
) -> tuple[DataFrame, dict[Path, str]]:
    """The frame with one more column for each list in some columns, and which one that is."""
    lists = [found for name, kind in columns for found in _render_lists((name,), kind)]
    if not lists:
        return data, {}
    added = {path: names.fresh() for path, _ in lists}
    kinds = dict(lists)
    blob = pickle.dumps((added, kinds))

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

        from omnigraph.pipeline.query.list_ordering import add_texts  # noqa: PLC0415

        added, kinds = pickle.loads(blob)
        yield from add_texts(added, kinds, batches)

    texts = [StructField(column, StringType()) for column in added.values()]
    return data.mapInArrow(body, StructType([*data.schema.fields, *texts])), added


def _render_lists(path: Path, kind: pa.DataType) -> Iterator[tuple[Path, pa.DataType]]:
    if pat.is_list(kind) or pat.is_fixed_size_list(kind):
        yield path, kind
    elif pat.is_struct(kind):
        for place, field in enumerate(kind):
            yield from _render_lists((*path, name_member(place)), field.type)


def add_texts(
    added: Mapping[Path, str], kinds: Mapping[Path, pa.DataType], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Batches with the texts of their lists, in a worker."""
    for batch in batches:
        whole = batch
        for path, column in added.items():
            values = batch.column(path[0])
            for name in path[1:]:
                values = pa.compute.struct_field(values, name)
            whole = whole.append_column(
                column, make_comparable(convert_from_spark(values, kinds[path]))
            )
        yield whole
