"""Stored queries: named queries in files, checked against a schema and run by name."""

from __future__ import annotations

from omnigraph.stored_queries.query_registry import (
    Breakage,
    QueryFit,
    QueryRegistry,
    StoredQuery,
    check_queries,
    check_schema_change,
    load_registry,
    parse_registry,
)

__all__ = [
    "Breakage",
    "QueryFit",
    "QueryRegistry",
    "StoredQuery",
    "check_queries",
    "check_schema_change",
    "load_registry",
    "parse_registry",
]
