"""A small commit in a wide schema."""

from __future__ import annotations

from bench.suite import CallsTarget, Case, GrowthTarget, Measure, Role, Suite, System, Target

SUITE = Suite(
    name="growth_types",
    question="How does the cost of a commit and an open grow with the types of the schema?",
    systems=(
        System("lance tables", Role.BARE, "bench.systems.many_types:run_tables"),
        System("omnigraph", Role.OURS, "bench.systems.many_types:run_graph"),
    ),
    measures=(
        Measure("commit", "one row more in one type"),
        Measure("processor", "processor time of the same commit, on all threads"),
        Measure("open", "the first open of a process; of bare tables, opening every one"),
        Measure("yardstick", "one row written over a bare table after each of them: the machine"),
    ),
    baselines=("lance tables",),
    prepare="bench.systems.many_types:prepare",
    cases=tuple(
        Case(f"{types} types", {"types": types, "warm_up": 5, "repetitions": 30})
        for types in (4, 16, 64)
    ),
    quick_cases=tuple(
        Case(f"{types} types", {"types": types, "warm_up": 2, "repetitions": 6})
        for types in (4, 16)
    ),
    targets=(
        Target("omnigraph", "commit", at_most=4.0, of="lance tables", aim=2.0),
        GrowthTarget("omnigraph", "commit", at_most=1.5, aim=1.2),
        GrowthTarget("omnigraph", "processor", at_most=1.5, aim=1.2),
        CallsTarget("omnigraph", at_most=12),
    ),
    axis="types",
    yardstick="yardstick",
    timeout_s=120,
)
