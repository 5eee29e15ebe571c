"""Commits and queries of one long-running process."""

from __future__ import annotations

from bench.suite import Case, Measure, MemoryTarget, Role, Suite, System

SUITE = Suite(
    name="long_history",
    question="How much memory does a process take that commits and queries over a long history?",
    systems=(
        System("lance append", Role.BARE, "bench.systems.long_history:run_log"),
        System("omnigraph", Role.OURS, "bench.systems.long_history:run_ours"),
    ),
    measures=(
        Measure("commits", "all commits, of one row each", "commits"),
        Measure("queries", "as many reads, one after each commit", "queries"),
    ),
    baselines=("lance append",),
    cases=(Case("5,000 commits and queries", {"commits": 5_000, "rows": 200}),),
    quick_cases=(Case("200 commits and queries", {"commits": 200, "rows": 50}),),
    targets=(MemoryTarget("omnigraph", "process", at_most=300_000_000),),
    timeout_s=900,
)
