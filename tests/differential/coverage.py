"""Coverage of the random queries: `python -m differential.coverage` prints it.

With `src` and `tests` on PYTHONPATH. The engine takes no part in it.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable

from differential.generate import make_graph, make_query

CONSTRUCTS = (
    *("binding", "interface binding", "inline match", "traversal", "hops", "undirected"),
    *("edge variable", "hop variable", "alternatives", "anonymous end", "negation"),
    *("block in a negation", "optional", "filter", "and", "or", "not", "membership", "nulltest"),
    *("search", "match_text", "fuzzy", "bm25", "nearest", "rrf", "type", "now", "object"),
    *("count", "count distinct", "sum", "sum_int", "avg", "min", "max"),
    *("collect", "collect distinct", "distinct", "order", "limit", "offset", "parameters"),
)
QUERIES, WITH_ROWS = "queries", "with rows"


def count(seeds: Iterable[int], queries: int) -> Counter[str]:
    """Count the queries that use each construct, all queries, and those with rows."""
    used: Counter[str] = Counter()
    for seed in seeds:
        graph = make_graph(seed)
        for number in range(queries):
            case = make_query(graph, number)
            used.update(case.constructs)
            used[QUERIES] += 1
            used[WITH_ROWS] += case.answer is None or case.answer.count > 0
    return used


def describe(used: Counter[str], seeds: range) -> str:
    share = used[WITH_ROWS] / used[QUERIES]
    head = (
        f"seeds {seeds.start} to {seeds.stop - 1}: {used[QUERIES]} queries, {share:.0%} with rows"
    )
    return "\n".join([head, *(f"  {used[name]:5} {name}" for name in CONSTRUCTS)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first seed")
    parser.add_argument("seeds", type=int, nargs="?", default=36, help="how many graphs")
    parser.add_argument("queries", type=int, nargs="?", default=56, help="queries for each")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    print(describe(count(seeds, chosen.queries), seeds))


if __name__ == "__main__":
    main()
