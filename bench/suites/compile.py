"""Parsing and binding a query of twenty clauses."""

from __future__ import annotations

from bench.suite import Case, Measure, Role, Suite, System, Target

SUITE = Suite(
    name="compile",
    question="What does it cost to parse and bind a query of twenty clauses?",
    systems=(
        System("sqlite", Role.PEER, "bench.systems.compile_sqlite:run"),
        System("token scan", Role.BARE, "bench.systems.compile_scan:run"),
        System("omnigraph", Role.OURS, "bench.systems.compile_ours:run"),
    ),
    measures=(
        Measure("first", "schema and query, the first time in a process, with imports"),
        Measure("repeat", "another query against the same schema"),
    ),
    baselines=("sqlite", "token scan"),
    cases=(Case("20 clauses", {"repetitions": 200}),),
    quick_cases=(Case("20 clauses", {"repetitions": 20}),),
    targets=(Target("omnigraph", "repeat", at_most=0.002),),
    timeout_s=60,
)
