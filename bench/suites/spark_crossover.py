"""From which size on Spark is the faster way to load."""

from __future__ import annotations

from bench.suite import Case, JsonValue, Measure, Role, Suite, System

_HERE = "bench.systems.spark_work"

SIZES: dict[str, JsonValue] = {
    "1 k rows": 1_000,
    "10 k rows": 10_000,
    "100 k rows": 100_000,
    "1 M rows": 1_000_000,
    "3 M rows": 3_000_000,
}
_COLD = tuple(f"{name}, cold" for name in SIZES)

SUITE = Suite(
    name="spark_crossover",
    question="From how many rows on is a load faster on Spark than in one process?",
    systems=(
        System("omnigraph local", Role.OURS, f"{_HERE}:run_sizes", {"engine": "local"}),
        System("omnigraph spark", Role.OURS, f"{_HERE}:run_sizes", {"engine": "spark"}),
    ),
    measures=(
        *(Measure(name, "one load, with all that it needs running", "rows") for name in SIZES),
        *(Measure(name, "the start of Java and workers included", "rows") for name in _COLD),
    ),
    baselines=("omnigraph local",),
    prepare=f"{_HERE}:prepare_sizes",
    cases=(Case("mixed lines", {"seed": 7, "sizes": SIZES}),),
    quick_cases=(Case("mixed lines", {"seed": 7, "sizes": dict.fromkeys(SIZES, 1_000)}),),
    series=(tuple(SIZES), _COLD),
    timeout_s=600,
)
