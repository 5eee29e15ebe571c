"""Merging many rows into a larger table."""

from __future__ import annotations

from bench.suite import Case, Measure, MemoryTarget, Role, Suite, System, Target

_HERE = "bench.systems.spark_upserts"
_GIB = 1 << 30

SUITE = Suite(
    name="spark_upsert",
    question="What does a checked merge on Spark cost, next to a bare merge by key?",
    systems=(
        System("lance", Role.BARE, f"{_HERE}:run_lance", prepare=f"{_HERE}:prepare_lance"),
        System(
            "omnigraph spark", Role.OURS, f"{_HERE}:run_spark", prepare=f"{_HERE}:prepare_graph"
        ),
    ),
    measures=(
        Measure("merge", "half of the rows replace others, half are new", "rows"),
        Measure("processor", "processor time of driver, Java and workers"),
    ),
    baselines=("lance",),
    prepare=f"{_HERE}:prepare",
    cases=(Case("1 M into 10 M", {"rows": 10_000_000, "delta": 1_000_000}),),
    quick_cases=(Case("10 k into 100 k", {"rows": 100_000, "delta": 10_000}),),
    targets=(
        Target("omnigraph spark", "merge", at_most=2.0, of="lance"),
        MemoryTarget("omnigraph spark", "driver", at_most=3 * _GIB),
        MemoryTarget("omnigraph spark", "worker", at_most=3 * _GIB // 2),
    ),
    timeout_s=600,
)
