"""What starting Spark adds to a small load."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System

_ENTRY = "bench.systems.spark_start:run"

SUITE = Suite(
    name="spark_start",
    question="From how many rows on is it worth starting Spark for one load?",
    systems=(
        System("omnigraph local", Role.OURS, _ENTRY, {"engine": "local"}),
        System("omnigraph spark", Role.OURS, _ENTRY, {"engine": "spark"}),
    ),
    measures=(Measure("wall", "the whole command, Spark started for it", "rows"),),
    baselines=("omnigraph local",),
    cases=(
        Case("100 rows", {"rows": 100, "repetitions": 2}),
        Case("1 M rows", {"rows": 1_000_000, "repetitions": 1}),
    ),
    quick_cases=(Case("100 rows", {"rows": 100, "repetitions": 1}),),
    axis="rows",
    timeout_s=300,
)
