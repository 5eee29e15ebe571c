"""Making benchmark data: it has to be cheap next to what it is for."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System

SUITE = Suite(
    name="generators",
    question="How fast is the social network made and written, next to bare NumPy?",
    systems=(
        System("numpy", Role.BARE, "bench.systems.generate:run_numbers"),
        System("parquet", Role.OURS, "bench.systems.generate:run_tables"),
    ),
    measures=(
        Measure("draw", "the network as numbers", "rows"),
        Measure("write", "names, ids, columns and files", "rows"),
        Measure("total", "both", "rows"),
    ),
    baselines=("numpy",),
    cases=(
        Case("10 k persons", {"seed": 7, "persons": 10_000}),
        Case("100 k persons", {"seed": 7, "persons": 100_000}),
    ),
    quick_cases=(
        Case("1 k persons", {"seed": 7, "persons": 1_000}),
        Case("5 k persons", {"seed": 7, "persons": 5_000}),
    ),
    axis="persons",
    timeout_s=300,
)
