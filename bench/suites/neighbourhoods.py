"""Look-ups and neighbourhoods in the social network, beside Ladybug."""

from __future__ import annotations

from bench.suite import Case, Environment, Measure, Role, Suite, System, Target

_CYPHER, _OURS = "bench.systems.social_cypher", "bench.systems.social_ours"


def _case(persons: int, kind: str, count: int) -> Case:
    return Case(
        f"{count:,} {kind} persons",
        {"seed": 7, "persons": persons, "kind": kind, "count": count},
    )


SUITE = Suite(
    name="neighbourhoods",
    question="What do a look-up and a neighbourhood cost, next to Ladybug?",
    systems=(
        System(
            "ladybug",
            Role.PEER,
            f"{_CYPHER}:run_neighbourhoods",
            {"package": "ladybug"},
            requires=("ladybug",),
            environment=Environment.PEERS,
            prepare=f"{_CYPHER}:prepare",
        ),
        System("omnigraph", Role.OURS, f"{_OURS}:run_neighbourhoods", prepare=f"{_OURS}:prepare"),
    ),
    measures=(
        Measure("point", "one person by identity"),
        Measure("1 hop", "everyone a person follows, counted and added up"),
        Measure("2 hops", "everyone within two hops"),
        Measure("3 hops", "everyone within three hops"),
        Measure("4 hops of every fourth", "everyone within four hops, of a share of the persons"),
        Measure("4 hops", "everyone within four hops; of many persons asked of us alone"),
        Measure("open and 1 hop", "from a closed store to the first answer of a process"),
    ),
    baselines=("ladybug",),
    prepare="bench.systems.social_data:prepare",
    cached_by=("seed", "persons"),
    cases=(_case(100_000, "random", 1_000), _case(100_000, "hub", 100)),
    quick_cases=(_case(5_000, "random", 50), _case(5_000, "hub", 20)),
    targets=(
        Target("omnigraph", "1 hop", at_most=5.0, of="ladybug", aim=2.0),
        Target("omnigraph", "2 hops", at_most=5.0, of="ladybug", aim=2.0),
        Target("omnigraph", "point", at_most=0.003, aim=0.001),
    ),
    timeout_s=300,
)
