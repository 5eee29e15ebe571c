"""The overhead of starting Spark for a small load."""

from __future__ import annotations

from bench.suite import Case, Environment, Measure, Role, Suite, System

_HERE = "bench.systems.spark_start"

SUITE = Suite(
    name="spark_start",
    question="What does Spark add to a load of 100 rows, started for it and running already?",
    systems=(
        System("omnigraph local", Role.OURS, f"{_HERE}:run", {"engine": "local"}),
        System("omnigraph spark, cold", Role.OURS, f"{_HERE}:run", {"engine": "spark"}),
        System(
            "omnigraph spark, connect server",
            Role.OURS,
            f"{_HERE}:run_connect",
            requires=("pandas", "grpcio"),
            environment=Environment.CONNECT,
        ),
    ),
    measures=(Measure("wall", "the whole command, from its start to its end", "rows"),),
    baselines=("omnigraph local",),
    cases=(Case("100 rows", {"rows": 100}),),
    timeout_s=300,
)
