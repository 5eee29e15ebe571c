"""One small commit on a warm handle."""

from __future__ import annotations

from bench.suite import CallsTarget, Case, Measure, Role, Suite, System, Target

_KINDS = ("insert", "upsert", "node and edge", "update", "delete")

SUITE = Suite(
    name="one_commit",
    question="What does a commit of one row cost, next to appending one row to a Lance table?",
    systems=(
        System("lance append", Role.BARE, "bench.systems.commits:run_log"),
        System("lance same change", Role.BARE, "bench.systems.commits:run_bare"),
        System("omnigraph", Role.OURS, "bench.systems.commits:run_ours"),
    ),
    measures=(
        Measure("commit", "one change, as its caller waits for it", "commits"),
        Measure("processor", "processor time of the same change, on all threads"),
    ),
    baselines=("lance append", "lance same change"),
    cases=tuple(
        Case(kind, {"kind": kind, "rows": 1_000, "warm_up": 10, "repetitions": 60})
        for kind in _KINDS
    ),
    quick_cases=tuple(
        Case(kind, {"kind": kind, "rows": 100, "warm_up": 2, "repetitions": 10}) for kind in _KINDS
    ),
    targets=(
        Target("omnigraph", "commit", at_most=4.0, of="lance append", aim=2.0),
        Target("omnigraph", "processor", at_most=4.0, of="lance append", aim=2.0),
        CallsTarget("omnigraph", at_most=12),
    ),
    timeout_s=120,
)
