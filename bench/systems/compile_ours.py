"""Our compiler: schema and query text in, a bound, typed and optimized plan out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bench.systems.compile_texts import QUERY_NAME, read_input, schema_text, time_compiles

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog


def compile_query(schema_text: str, query_text: str, name: str) -> Sequence[str]:
    """The column names of the named query, once its plan is ready to run.

    The compiler is imported here because loading it is part of what the first compile costs; the
    catalog is cached between calls, as in an open graph.
    """
    from omnigraph.language.source import SourceText
    from omnigraph.plan.compile import compile_plan
    from omnigraph.plan.plan_nodes import ReadPlan

    plan = compile_plan(SourceText(query_text), _catalog(schema_text), name)
    if not isinstance(plan, ReadPlan):
        raise TypeError(f"{name} is not a read query")
    return [column.name for column in plan.columns]


@lru_cache(maxsize=1)
def _catalog(schema_text: str) -> Catalog:
    from omnigraph.language.source import SourceText
    from omnigraph.plan.compile import compile_catalog

    return compile_catalog(SourceText(schema_text))


def run(spec: dict[str, Any]) -> dict[str, Any]:
    schema = schema_text()
    return time_compiles(
        spec, read_input("query.gq"), lambda text: compile_query(schema, text, QUERY_NAME)
    )
