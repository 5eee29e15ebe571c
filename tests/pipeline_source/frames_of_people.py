"""People whose age is in their name, to be read as frames."""

from __future__ import annotations

SCHEMA = "node Person { k: String @key  age: I32? }"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""The option by which Spark offers filters to sources."""


def people(first: int, last: int) -> list[dict[str, object]]:
    return [{"type": "Person", "data": {"k": f"p{n}", "age": n}} for n in range(first, last)]
