"""Reading a hundredth of a type from Spark."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System

_HERE = "bench.systems.spark_reads"

SUITE = Suite(
    name="spark_read",
    question="What does reading 1 % of a type as a frame cost, next to Spark reading Parquet?",
    systems=(
        System("spark parquet", Role.BARE, f"{_HERE}:run_parquet"),
        System("omnigraph where", Role.OURS, f"{_HERE}:run_where"),
        System("omnigraph filter", Role.OURS, f"{_HERE}:run_filter"),
    ),
    measures=(Measure("read", "load the frame and collect the rows, on a warm session"),),
    baselines=("spark parquet",),
    prepare=f"{_HERE}:prepare",
    cached_by=("rows",),
    cases=(Case("10^6 rows", {"rows": 1_000_000}),),
    quick_cases=(Case("10^5 rows", {"rows": 100_000}),),
    timeout_s=300,
)
