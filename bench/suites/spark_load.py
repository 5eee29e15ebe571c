"""Loading a whole graph on Spark."""

from __future__ import annotations

from bench.suite import Case, Environment, Measure, Role, Suite, System, Target

_HERE = "bench.systems.spark_loads"

SUITE = Suite(
    name="spark_load",
    question="What does a checked load on Spark cost, next to Spark writing Parquet?",
    systems=(
        System("spark parquet", Role.BARE, f"{_HERE}:run_spark_parquet"),
        System("lance", Role.BARE, f"{_HERE}:run_lance"),
        System(
            "kuzu copy",
            Role.PEER,
            "bench.systems.load_kuzu:run",
            requires=("kuzu",),
            environment=Environment.PEERS,
        ),
        System("omnigraph jsonl", Role.OURS, f"{_HERE}:run_jsonl"),
        System("omnigraph parquet", Role.OURS, f"{_HERE}:run_parquet"),
    ),
    measures=(
        Measure("load", "the whole network, on a warm session", "rows"),
        Measure("processor", "processor time of driver, Java and workers"),
    ),
    baselines=("lance", "spark parquet", "kuzu copy"),
    prepare=f"{_HERE}:prepare",
    cached_by=("seed", "persons"),
    cases=(Case("100 k persons", {"seed": 7, "persons": 100_000}),),
    quick_cases=(Case("10 k persons", {"seed": 7, "persons": 10_000}),),
    targets=(
        Target("omnigraph jsonl", "load", at_most=3.0, of="spark parquet", aim=1.5),
        Target("omnigraph parquet", "load", at_most=3.0, of="spark parquet", aim=1.5),
    ),
    timeout_s=300,
)
