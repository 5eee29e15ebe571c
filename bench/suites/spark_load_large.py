"""Eleven million lines as one commit."""

from __future__ import annotations

from bench.suite import Case, Measure, MemoryTarget, Role, Suite, System, Target

_HERE = "bench.systems.spark_work"
_GIB = 1 << 30

SUITE = Suite(
    name="spark_load_large",
    question="What does one checked commit of 1 M nodes and 10 M edges take on two cores?",
    systems=(
        System("lance", Role.BARE, f"{_HERE}:run_lance"),
        System("omnigraph spark", Role.OURS, f"{_HERE}:run_spark", {"cores": 2}),
    ),
    measures=(
        Measure("load", "mixed JSON lines as one commit, on a warm session", "rows"),
        Measure("processor", "processor time of driver, Java and workers"),
    ),
    baselines=("lance",),
    prepare=f"{_HERE}:prepare",
    cached_by=("seed", "rows"),
    cases=(Case("11 M rows", {"seed": 7, "rows": 11_000_000}),),
    quick_cases=(Case("110 k rows", {"seed": 7, "rows": 110_000}),),
    targets=(
        Target("omnigraph spark", "processor", at_most=69.0, aim=46.0),
        MemoryTarget("omnigraph spark", "driver", at_most=3 * _GIB),
        MemoryTarget("omnigraph spark", "worker", at_most=3 * _GIB // 2),
    ),
    timeout_s=600,
)
