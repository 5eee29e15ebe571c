"""The time a new process takes to its first answer."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

_HERE = "bench.systems.first_query"

SUITE = Suite(
    name="startup_query",
    question="What does the first query of a new process cost, next to bare Lance and Arrow?",
    systems=(
        System("lance scan", Role.BARE, f"{_HERE}:run_bare"),
        System("omnigraph query", Role.OURS, f"{_HERE}:run_ours"),
    ),
    measures=(Measure("wall", "from the start of the process to its end, whom a person follows"),),
    baselines=("lance scan",),
    prepare=f"{_HERE}:prepare",
    cases=(Case("1,000 persons", {"seed": 7, "persons": 1_000, "repetitions": 5}),),
    quick_cases=(Case("100 persons", {"seed": 7, "persons": 100, "repetitions": 1}),),
    targets=(Target("omnigraph query", "wall", at_most=1.5),),
    timeout_s=120,
)
