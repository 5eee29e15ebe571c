"""Writing over HTTP, next to writing where the graph is open."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

_HERE = "bench.systems.served_writes"

SUITE = Suite(
    name="served_writes",
    question="What does a commit over HTTP cost, next to the same commit in the process itself?",
    systems=(
        System("embedded", Role.BARE, f"{_HERE}:run_embedded"),
        System("http", Role.OURS, f"{_HERE}:run_served"),
    ),
    measures=(
        Measure("one write", "one row, one commit, one writer"),
        Measure("eight writers", "all commits of eight writers at once", "commits"),
    ),
    baselines=("embedded",),
    cases=(Case("one row", {"warm_up": 5, "repetitions": 60, "writers": 8, "commits": 160}),),
    quick_cases=(Case("one row", {"warm_up": 1, "repetitions": 5, "writers": 2, "commits": 8}),),
    targets=(
        Target("http", "one write", at_most=1.5, of="embedded"),
        Target("http", "eight writers", at_most=1.5, of="embedded"),
    ),
    timeout_s=300,
)
