"""Concurrent writers in several processes.

All cases make the same number of commits, so time that stays the same is throughput that stays
the same. Eight writers are to reach at least 0.7 of what one does: 1.43 times its time.
"""

from __future__ import annotations

from bench.suite import Case, GrowthTarget, Measure, Role, Suite, System

SUITE = Suite(
    name="writers",
    question="How many commits a second do several processes make together on one graph?",
    systems=(
        System("lance append", Role.BARE, "bench.systems.writers:run_log"),
        System("omnigraph", Role.OURS, "bench.systems.writers:run_ours"),
    ),
    measures=(
        Measure("all commits", "from the common start to the end of the last writer", "commits"),
        Measure("one commit", "as its writer waits for it, with everything that was tried again"),
    ),
    baselines=("lance append",),
    cases=tuple(
        Case(f"{writers} writers", {"writers": writers, "commits": 160}) for writers in (1, 2, 4, 8)
    ),
    quick_cases=tuple(
        Case(f"{writers} writers", {"writers": writers, "commits": 24}) for writers in (1, 2, 4)
    ),
    targets=(GrowthTarget("omnigraph", "all commits", at_most=1.43, aim=1.0),),
    axis="writers",
    timeout_s=180,
)
