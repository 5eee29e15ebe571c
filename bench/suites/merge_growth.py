"""One merge into ever larger tables: its cost follows the number of changes."""

from __future__ import annotations

from bench.suite import Case, GrowthTarget, Measure, Role, Suite, System

SUITE = Suite(
    name="merge_growth",
    question="How does the cost of a merge and a diff grow with the unchanged rows?",
    systems=(
        System(
            "omnigraph",
            Role.OURS,
            "bench.systems.merge_ours:run",
            {"with_yardstick": True},
            prepare="bench.systems.merge_ours:prepare",
        ),
    ),
    measures=(
        Measure("merge", "100 rows changed on each side, merged"),
        Measure("processor", "processor time of the same, on all threads"),
        Measure("diff", "the 100 rows the branch changed, before and after"),
        Measure("yardstick", "one row written over a bare table after each of them: the machine"),
    ),
    baselines=("omnigraph",),
    cached_by=("rows",),
    cases=tuple(
        Case(f"{rows:,} rows", {"rows": rows, "work": 100, "main": 100})
        for rows in (10_000, 100_000, 1_000_000)
    ),
    quick_cases=tuple(
        Case(f"{rows:,} rows", {"rows": rows, "work": 10, "main": 10}) for rows in (200, 20_000)
    ),
    targets=(
        GrowthTarget("omnigraph", "merge", at_most=2.0, aim=1.2),
        GrowthTarget("omnigraph", "diff", at_most=2.0, aim=1.2),
    ),
    axis="rows",
    yardstick="yardstick",
    timeout_s=300,
)
