"""Optimizing a graph after many small commits. The aim: little more than Lance takes by itself."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

SUITE = Suite(
    name="maintenance_optimize",
    question="What does it cost to optimize a graph after many one-row commits?",
    systems=(
        System("lance compact and index", Role.BARE, "bench.systems.maintenance:run_lance"),
        System("omnigraph", Role.OURS, "bench.systems.maintenance:run_ours"),
    ),
    measures=(
        Measure("optimize", "merge the fragments and bring the indexes up to date", "commits"),
        Measure("processor", "processor time of the same, on all threads"),
    ),
    baselines=("lance compact and index",),
    prepare="bench.systems.maintenance:prepare",
    cases=(Case("2,000 commits", {"commits": 2_000}),),
    quick_cases=(Case("60 commits", {"commits": 60}),),
    targets=(Target("omnigraph", "optimize", at_most=2.0, of="lance compact and index", aim=1.2),),
    timeout_s=600,
)
