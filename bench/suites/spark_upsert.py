"""Merging many rows into a larger table."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

_HERE = "bench.systems.spark_upserts"

SUITE = Suite(
    name="spark_upsert",
    question="What does a checked merge cost, next to a bare merge by key?",
    systems=(
        System("lance", Role.SUBSTRATE, f"{_HERE}:run_lance"),
        System("omnigraph spark", Role.OURS, f"{_HERE}:run_spark"),
        System("omnigraph inline", Role.OURS, f"{_HERE}:run_inline"),
    ),
    measures=(
        Measure("merge", "half of the rows replace others, half are new", "rows"),
        Measure("processor", "processor time of driver, Java and workers"),
    ),
    baselines=("lance",),
    prepare=f"{_HERE}:prepare",
    cases=(
        Case("100 k into 1 M", {"rows": 1_000_000, "delta": 100_000}),
        Case("1 M into 10 M", {"rows": 10_000_000, "delta": 1_000_000}),
    ),
    quick_cases=(Case("10 k into 100 k", {"rows": 100_000, "delta": 10_000}),),
    targets=(Target("omnigraph inline", "processor", at_most=4.0, of="lance"),),
    axis="rows",
    timeout_s=600,
)
