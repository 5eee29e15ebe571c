"""Vector, text and hybrid search over documents, beside LanceDB at equal recall.

Vector and text answers are held to one exact reference. Hybrid answers cannot be: LanceDB cuts
both of its rankings at the limit, we cut only the nearest and rank every text that has a word, and
neither can be configured like the other. So each is compared with the exact answer of its own
definition, with one constant and one BM25. The two answers share 87 of 100 documents; ours does
more work.
"""

from __future__ import annotations

from bench.suite import Case, Environment, Measure, Role, Suite, System, Target

_PEER, _OURS = "bench.systems.retrieval_lancedb", "bench.systems.retrieval_ours"

SUITE = Suite(
    name="retrieval",
    question="What does finding ten documents cost, next to LanceDB at equal recall?",
    systems=(
        System(
            "lancedb",
            Role.PEER,
            f"{_PEER}:run",
            requires=("lancedb",),
            environment=Environment.PEERS,
            prepare=f"{_PEER}:prepare",
        ),
        System("omnigraph", Role.OURS, f"{_OURS}:run", prepare=f"{_OURS}:prepare"),
    ),
    measures=(
        Measure("vector", "the ten nearest of all documents"),
        Measure("text", "the ten best for three words"),
        Measure("hybrid", "the ten best of both rankings fused"),
        Measure("open and hybrid", "from a closed store to the first answer of a process"),
    ),
    baselines=("lancedb",),
    prepare="bench.systems.retrieval_data:prepare",
    cached_by=("seed", "documents", "searches"),
    cases=(Case("100 k documents", {"seed": 7, "documents": 100_000, "searches": 100}),),
    quick_cases=(Case("2 k documents", {"seed": 7, "documents": 2_000, "searches": 20}),),
    targets=(Target("omnigraph", "hybrid", at_most=1.5, of="lancedb", aim=1.1),),
    timeout_s=300,
)
