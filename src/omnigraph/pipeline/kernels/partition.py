"""The task of a kernel that is fed with rows by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a data frame; its rows can be read once."""

    number: int
    batches: Iterator[pa.RecordBatch]
