"""Merging a branch, and what it changed, beside DoltLite."""

from __future__ import annotations

from bench.suite import Case, Environment, Measure, Role, Suite, System, Target

_CASES = {
    "10 k × 10 k changes": {"work": 10_000, "main": 10_000},
    "one change each": {"work": 1, "main": 1},
    "fast-forward of 10 k": {"work": 10_000, "main": 0},
    "fast-forward of one": {"work": 1, "main": 0},
}

SUITE = Suite(
    name="merge",
    question="What does merging a branch of a million rows cost, next to DoltLite?",
    systems=(
        System(
            "doltlite",
            Role.PEER,
            "bench.systems.merge_doltlite:run",
            requires=("doltlite",),
            environment=Environment.PEERS,
            prepare="bench.systems.merge_doltlite:prepare",
        ),
        System(
            "omnigraph",
            Role.OURS,
            "bench.systems.merge_ours:run",
            prepare="bench.systems.merge_ours:prepare",
        ),
    ),
    measures=(
        Measure("merge", "one branch merged into the other, each with changes of its own", "rows"),
        Measure("processor", "processor time of the same, on all threads"),
        Measure("diff", "what the branch changed, with the rows before and after", "rows"),
    ),
    baselines=("doltlite",),
    cached_by=("rows",),
    cases=tuple(Case(name, {"rows": 1_000_000, **sizes}) for name, sizes in _CASES.items()),
    quick_cases=(
        Case("100 × 100 changes", {"rows": 10_000, "work": 100, "main": 100}),
        Case("fast-forward of one", {"rows": 10_000, "work": 1, "main": 0}),
    ),
    targets=(
        Target("omnigraph", "merge", at_most=3.0, of="doltlite", aim=1.0),
        Target("omnigraph", "diff", at_most=3.0, of="doltlite", aim=1.0),
    ),
    timeout_s=600,
)
