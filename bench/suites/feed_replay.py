"""Building a graph from its change feed, next to exporting it."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System

SUITE = Suite(
    name="feed_replay",
    question="What does it cost to build a graph from its whole feed, next to exporting it?",
    systems=(
        System("export", Role.OURS, "bench.systems.feed_replay:run_export"),
        System("replay", Role.OURS, "bench.systems.feed_replay:run_replay"),
    ),
    measures=(
        Measure("whole graph", "every row of the graph as it is now", "commits"),
        Measure("processor", "processor time of the same, on all threads"),
    ),
    baselines=("export",),
    prepare="bench.systems.feed_replay:prepare",
    cases=(Case("1,000 commits", {"commits": 1_000}),),
    quick_cases=(Case("20 commits", {"commits": 20}),),
    timeout_s=300,
)
