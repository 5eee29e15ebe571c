"""Filling a new column of a large table. The aim: little more than Lance takes by itself."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

SUITE = Suite(
    name="schema_backfill",
    question="What does adding a property with a default cost, next to a column of a Lance table?",
    systems=(
        System("lance add_columns", Role.BARE, "bench.systems.schema_changes:run_lance_backfill"),
        System("omnigraph", Role.OURS, "bench.systems.schema_changes:run_backfill"),
    ),
    measures=(
        Measure("backfill", "give every row the default", "rows"),
        Measure("processor", "processor time of the same, on all threads"),
    ),
    baselines=("lance add_columns",),
    prepare="bench.systems.schema_changes:prepare",
    cases=(Case("10 M rows", {"rows": 10_000_000}),),
    quick_cases=(Case("10,000 rows", {"rows": 10_000}),),
    targets=(Target("omnigraph", "backfill", at_most=1.5, of="lance add_columns"),),
    timeout_s=900,
)
