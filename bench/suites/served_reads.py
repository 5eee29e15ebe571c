"""Reading over HTTP, next to reading where the graph is open."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

_HERE = "bench.systems.served_reads"
_QUESTIONS = {"seed": 7, "repetitions": 300, "streams": 5}

SUITE = Suite(
    name="served_reads",
    question="What does a read over HTTP cost, next to the same read in the process itself?",
    systems=(
        System("embedded", Role.BARE, f"{_HERE}:run_embedded"),
        System("http", Role.OURS, f"{_HERE}:run_served"),
    ),
    measures=(
        Measure("point read", "one person by key, one caller"),
        Measure("two hops", "the persons two steps away, counted, one caller"),
        Measure("reads together", "persons by key, eight callers at once", "reads"),
        Measure("all rows", "five columns of all persons as Arrow", "rows"),
    ),
    baselines=("embedded",),
    prepare=f"{_HERE}:prepare",
    cases=(Case("100,000 persons", {"persons": 100_000, **_QUESTIONS}),),
    quick_cases=(
        Case("500 persons", {"seed": 7, "persons": 500, "repetitions": 20, "streams": 2}),
    ),
    targets=(
        Target("http", "point read", at_most=2.0, of="embedded"),
        Target("http", "two hops", at_most=2.0, of="embedded"),
        Target("http", "reads together", at_most=2.0, of="embedded"),
        Target("http", "all rows", at_most=2.0, of="embedded"),
    ),
    timeout_s=300,
)
