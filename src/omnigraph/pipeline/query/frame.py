"""Rows of a plan as a data frame, and which of its columns holds what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

ID, TYPE, HOPS = "#id", "#type", "#hops"
"""What a variable has besides its properties; no property can have such a name."""

SMALL_ROWS = 100_000
"""So many rows at most are sent to every executor instead of being shuffled."""

Slot = tuple[str, str]
"""A variable, and its property or one of the names above."""


@dataclass(frozen=True, slots=True)
class Held:
    """The column a value is in, and the Arrow type it has outside Spark."""

    column: str
    kind: pa.DataType


@dataclass(frozen=True)
class Frame:
    """Rows, and where their values are. `most` is a bound on their number."""

    data: DataFrame
    slots: Mapping[Slot, Held]
    most: float

    def column(self, variable: str, name: str) -> SparkColumn:
        return F.col(self.slots[variable, name].column)

    def with_data(self, data: DataFrame) -> Frame:
        return replace(self, data=data)

    def of(self, variables: Iterable[str]) -> dict[Slot, Held]:
        """What is held about some variables."""
        wanted = set(variables)
        return {slot: held for slot, held in self.slots.items() if slot[0] in wanted}


@dataclass
class ColumnNames:
    """Gives every column a name of its own, so that no join is ambiguous."""

    _numbers: Callable[[], int] = field(default_factory=lambda: count().__next__)

    def fresh(self) -> str:
        return f"c{self._numbers()}"


def mark_broadcast(data: DataFrame, most: float) -> DataFrame:
    """The frame, marked to be sent to every executor if it is small."""
    return F.broadcast(data) if most <= SMALL_ROWS else data


def conjoin(conditions: Iterable[SparkColumn]) -> SparkColumn:
    found = F.lit(True)
    for condition in conditions:
        found = found & condition
    return found
