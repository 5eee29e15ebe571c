"""Conditions on one row, written in `.gq`, in SQL, and as a Python function that evaluates them."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Row = dict[str, object]

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Compare:
    column: str
    op: str
    value: object

    def gq(self, variable: str) -> str:
        return f"${variable}.{self.column} {self.op} {json.dumps(self.value)}"

    def sql(self) -> str:
        return f"{self.column} {self.op} {_sql(self.value)}"

    def evaluate(self, row: Row) -> bool | None:
        value = row[self.column]
        return None if value is None else bool(OPERATORS[self.op](value, self.value))


@dataclass(frozen=True)
class Among:
    column: str
    values: tuple[object, ...]

    def gq(self, variable: str) -> str:
        return f"${variable}.{self.column} in {json.dumps(self.values)}"

    def sql(self) -> str:
        return f"{self.column} in ({', '.join(map(_sql, self.values))})"

    def evaluate(self, row: Row) -> bool | None:
        value = row[self.column]
        return None if value is None else value in self.values


@dataclass(frozen=True)
class Missing:
    column: str

    def gq(self, variable: str) -> str:
        return f"${variable}.{self.column} is null"

    def sql(self) -> str:
        return f"{self.column} is null"

    def evaluate(self, row: Row) -> bool | None:
        return row[self.column] is None


@dataclass(frozen=True)
class StartsWith:
    """In SQL also with a function around the column, which is never pushed down."""

    column: str
    prefix: str
    in_capitals: bool

    def gq(self, variable: str) -> str:
        return f"${variable}.{self.column} starts_with {json.dumps(self.prefix)}"

    def sql(self) -> str:
        if self.in_capitals:
            return f"upper({self.column}) like '{self.prefix.upper()}%'"
        return f"{self.column} like '{self.prefix}%'"

    def evaluate(self, row: Row) -> bool | None:
        value = row[self.column]
        return None if value is None else str(value).startswith(self.prefix)


@dataclass(frozen=True)
class Not:
    item: Condition

    def gq(self, variable: str) -> str:
        return f"not ({self.item.gq(variable)})"

    def sql(self) -> str:
        return f"not ({self.item.sql()})"

    def evaluate(self, row: Row) -> bool | None:
        found = self.item.evaluate(row)
        return None if found is None else not found


@dataclass(frozen=True)
class Both:
    """Two conditions joined by `and` or `or`."""

    word: str
    left: Condition
    right: Condition

    def gq(self, variable: str) -> str:
        return f"({self.left.gq(variable)} {self.word} {self.right.gq(variable)})"

    def sql(self) -> str:
        return f"({self.left.sql()} {self.word} {self.right.sql()})"

    def evaluate(self, row: Row) -> bool | None:
        found = self.left.evaluate(row), self.right.evaluate(row)
        decisive = self.word == "or"
        if decisive in found:
            return decisive
        return None if None in found else not decisive


Condition = Compare | Among | Missing | StartsWith | Not | Both


def holds(condition: Condition | None, row: Row) -> bool:
    """Return whether a row passes the filter; unknown passes none."""
    return condition is None or condition.evaluate(row) is True


def make_condition(
    random: Random, values: dict[str, tuple[object, ...]], depth: int = 2
) -> Condition:
    """A random condition over columns, each with values that occur in it."""
    shape = random.random()
    if depth and shape < 0.15:
        return Not(make_condition(random, values, depth - 1))
    if depth and shape < 0.35:
        left, right = (make_condition(random, values, depth - 1) for _ in range(2))
        return Both(random.choice(["and", "or"]), left, right)
    column = random.choice(list(values))
    if shape < 0.45:
        return Missing(column)
    if shape < 0.6:
        return Among(column, tuple(random.choices(values[column], k=random.randint(1, 3))))
    value = random.choice(values[column])
    if isinstance(value, str) and shape < 0.75:
        return StartsWith(column, value[: random.randint(1, 2)], random.random() < 0.5)
    return Compare(column, random.choice(list(OPERATORS)), value)


def _sql(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
