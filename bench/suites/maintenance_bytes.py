"""The size of a graph on disk after cleanup, beside one that was loaded in one go."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System

SUITE = Suite(
    name="maintenance_bytes",
    question="How much disk does a graph take after many commits and a cleanup, beside a new one?",
    systems=(
        System("omnigraph fresh", Role.OURS, "bench.systems.maintenance:run_fresh"),
        System("omnigraph cleaned", Role.OURS, "bench.systems.maintenance:run_cleaned"),
    ),
    measures=(Measure("cleanup", "remove all but the newest commit"),),
    baselines=("omnigraph fresh",),
    prepare="bench.systems.maintenance:prepare_rows",
    cases=tuple(
        Case(f"{rows:,} rows", {"rows": rows, "commits": 500}) for rows in (1_000, 10_000, 100_000)
    ),
    quick_cases=tuple(
        Case(f"{rows:,} rows", {"rows": rows, "commits": 20}) for rows in (200, 2_000)
    ),
    axis="rows",
    timeout_s=600,
)
