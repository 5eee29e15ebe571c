"""The nine questions of the published social-network study, beside Kuzu and DuckDB."""

from __future__ import annotations

from bench.suite import Case, Environment, Measure, Role, Suite, System, Target

_MEANINGS = {
    "q1": "the three most followed persons",
    "q2": "where the most followed person lives",
    "q3": "the five cities of a country with the youngest persons",
    "q4": "persons of an age, by country",
    "q5": "how many persons of a city have an interest",
    "q6": "the five cities where most persons have an interest",
    "q7": "the state where most persons of an age have an interest",
    "q8": "how many paths of two hops there are",
    "q9": "the same, through the young to the grown-up",
}
_CYPHER, _SQL = "bench.systems.social_cypher", "bench.systems.social_duckdb"
_OURS = "bench.systems.social_ours"

SUITE = Suite(
    name="social",
    question="What do nine questions about a social network cost, next to Kuzu and DuckDB?",
    systems=(
        System(
            "kuzu",
            Role.PEER,
            f"{_CYPHER}:run_questions",
            {"package": "kuzu"},
            requires=("kuzu",),
            environment=Environment.PEERS,
            prepare=f"{_CYPHER}:prepare",
        ),
        System(
            "duckdb",
            Role.PEER,
            f"{_SQL}:run_questions",
            requires=("duckdb",),
            environment=Environment.PEERS,
            prepare=f"{_SQL}:prepare",
        ),
        System("omnigraph", Role.OURS, f"{_OURS}:run_questions", prepare=f"{_OURS}:prepare"),
    ),
    measures=(
        Measure("q1–q7", "geometric mean of the seven questions the study compares"),
        *(Measure(name, meaning) for name, meaning in _MEANINGS.items()),
        Measure("open and q1", "from a closed store to the first answer of a process"),
    ),
    baselines=("kuzu", "duckdb"),
    prepare="bench.systems.social_data:prepare",
    cached_by=("seed", "persons"),
    cases=(Case("100 k persons", {"seed": 7, "persons": 100_000, "warm_up": 2, "repetitions": 5}),),
    quick_cases=(
        Case("5 k persons", {"seed": 7, "persons": 5_000, "warm_up": 1, "repetitions": 3}),
    ),
    targets=(Target("omnigraph", "q1–q7", at_most=1.5, of="kuzu", aim=1.0),),
    timeout_s=300,
)
