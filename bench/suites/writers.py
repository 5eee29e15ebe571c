"""Writers in several processes at once. The aim: eight reach at least 0.7 of what one does."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System

SUITE = Suite(
    name="writers",
    question="How many commits a second do several processes make together on one graph?",
    systems=(
        System("lance append", Role.SUBSTRATE, "bench.systems.writers:run_log"),
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
    axis="writers",
    timeout_s=180,
)
