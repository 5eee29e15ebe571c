"""Loading a whole graph as one commit."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

SUITE = Suite(
    name="load",
    question="What does loading a checked graph cost, next to writing its columns to Lance?",
    systems=(
        System("lance", Role.BARE, "bench.systems.loads:run_lance"),
        System("json and lance", Role.BARE, "bench.systems.loads:run_json_and_lance"),
        System("omnigraph", Role.OURS, "bench.systems.loads:run_ours"),
    ),
    measures=(
        Measure("load", "the whole network", "rows"),
        Measure("processor", "processor time of the same load, on all threads"),
    ),
    baselines=("lance", "json and lance"),
    prepare="bench.systems.loads:prepare",
    cases=(
        Case("10 k persons", {"seed": 7, "persons": 10_000}),
        Case("100 k persons", {"seed": 7, "persons": 100_000}),
    ),
    quick_cases=(Case("10 k persons", {"seed": 7, "persons": 10_000}),),
    targets=(Target("omnigraph", "load", at_most=4.0, of="lance", aim=2.0),),
    axis="persons",
    timeout_s=300,
)
