"""The benchmarks that the README quotes, as `bench/RESULTS.md` has them."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "bench" / "RESULTS.md"
BENCHMARKS = (
    (
        "seven questions about a social network of 100,000 people",
        "social",
        "omnigraph, q1–q7",
        "kuzu",
    ),
    ("the same", "social", "omnigraph, q1–q7", "duckdb"),
    ("counting every path of two steps in it", "social", "omnigraph, q8", "kuzu"),
    ("the same", "social", "omnigraph, q8", "duckdb"),
    (
        "one node by its key",
        "neighbourhoods",
        "omnigraph, point at 1,000 random persons",
        "ladybug",
    ),
    (
        "all nodes within three hops",
        "neighbourhoods",
        "omnigraph, 3 hops at 1,000 random persons",
        "ladybug",
    ),
    (
        "opening a graph and one hop",
        "neighbourhoods",
        "omnigraph, open and 1 hop at 1,000 random persons",
        "ladybug",
    ),
    (
        "ten of 100,000 documents by vector and text together",
        "retrieval",
        "omnigraph, hybrid",
        "lancedb",
    ),
    ("opening, and the same", "retrieval", "omnigraph, open and hybrid", "lancedb"),
    ("a commit of one row", "one_commit", "omnigraph, commit at insert", "lance append"),
    (
        "a commit after 1,000 commits",
        "growth_history",
        "omnigraph, commit at 1,000 commits",
        "lance append",
    ),
    (
        "merging two branches that changed 10,000 rows each, of a million",
        "merge",
        "omnigraph, merge at 10 k × 10 k changes",
        "doltlite",
    ),
    (
        "merging two branches that changed one row each",
        "merge",
        "omnigraph, merge at one change each",
        "doltlite",
    ),
    (
        "a checked bulk load from Parquet, on Spark",
        "spark_load",
        "omnigraph parquet, load",
        "spark parquet",
    ),
    ("the same", "spark_load", "omnigraph parquet, load", "kuzu copy"),
    (
        "a checked merge of 1 million rows into 10 million, on Spark",
        "spark_upsert",
        "omnigraph spark, merge",
        "lance",
    ),
    ("a look-up over HTTP", "served_reads", "http, point read", "embedded"),
    ("a commit over HTTP", "served_writes", "http, one write", "embedded"),
)
"""What is quoted: in words, the suite, system and measure, and the peer."""
PEERS = {
    "doltlite": "DoltLite",
    "duckdb": "DuckDB",
    "embedded": "the same in process",
    "kuzu": "Kuzu",
    "kuzu copy": "Kuzu's `COPY`",
    "ladybug": "Ladybug",
    "lance": "a bare merge of Lance, unchecked",
    "lance append": "a bare append of Lance",
    "lancedb": "LanceDB, at equal recall",
    "spark parquet": "Spark writing Parquet",
}


def render_benchmarks() -> str:
    """The headlines that the README quotes, as `bench/RESULTS.md` has them."""
    results = RESULTS.read_text()
    rows = ["| Measured | Next to | Time |", "|---|---|---:|"]
    for words, suite, measure, peer in BENCHMARKS:
        section = results.partition(f"\n## {suite}\n")[2].partition("\n## ")[0]
        system, _, what = measure.partition(", ")
        headline = (
            rf"^- \*\*{re.escape(system)}\*\*, {re.escape(what)}: \*\*(.+?)×\*\* `{peer}` \((.*)\)$"
        )
        found = re.search(headline, section, re.MULTILINE)
        assert found, f"bench/RESULTS.md has no headline of {suite}: {measure}, next to {peer}"
        shown = "about the same" if "no difference shown" in found[2] else f"{float(found[1]):.2g}×"
        rows.append(f"| {words} | {PEERS[peer]} | {shown} |")
    return "\n".join(rows)
