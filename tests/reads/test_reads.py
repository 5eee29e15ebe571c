"""Three engines that read, against rows kept in plain Python, in one process.

Embedded queries and rows, `.gq` on Spark, and the data source with its frames and views; between
the reads the graph is written, branched, optimized, cleaned up, removed and made again at its path.
`READS_SEED` moves the seeds. Run with `-rP` to see the counts of what was tried.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from reads.life import Templates
from reads.running import describe, run_seeds
from reads.steps import EMBEDDED, ON_SPARK, make_steps

FIRST = int(os.environ.get("READS_SEED", "0"))
BLOCK, SPARK_BLOCK = 46, 10
SEEDS = range(FIRST, FIRST + 460)
SPARK_SEEDS = range(FIRST + 460, FIRST + 500)
MANY_SEEDS = range(FIRST + 10_000, FIRST + 19_200)
MANY_SPARK_SEEDS = range(FIRST + 19_200, FIRST + 20_000)


def blocks(seeds: range, size: int) -> list[range]:
    return [seeds[at : at + size] for at in range(0, len(seeds), size)]


def name(seeds: range) -> str:
    return f"{seeds.start}-{seeds.stop - 1}"


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    return Templates(tmp_path_factory.mktemp("templates"))


def live(seeds, folder, templates, record_property, session=None):
    tally = run_seeds(seeds, folder, templates, session)
    print(describe(tally, seeds))
    record_property("seeds", len(seeds))
    record_property("states", sum(n for kind, n in tally.items() if " / " in kind))


@pytest.mark.parametrize("seeds", blocks(SEEDS, BLOCK), ids=name)
def test_every_answer_is_that_of_the_rows(seeds, tmp_path, templates, record_property):
    live(seeds, tmp_path, templates, record_property)


@pytest.mark.parametrize("seeds", blocks(SPARK_SEEDS, SPARK_BLOCK), ids=name)
def test_so_is_every_answer_on_spark(seeds, tmp_path, templates, record_property, spark):
    live(seeds, tmp_path, templates, record_property, spark)


def test_the_lives_have_every_kind_of_step():
    kinds = Counter(step.kind for seed in SEEDS for step in make_steps(seed, on_spark=False))
    on_spark = Counter(
        step.kind for seed in SPARK_SEEDS for step in make_steps(seed, on_spark=True)
    )
    assert all(kinds[kind] >= 40 for kind in EMBEDDED)
    assert all(on_spark[kind] >= 10 for kind in ON_SPARK)


@pytest.mark.fuzz
@pytest.mark.parametrize("seeds", blocks(MANY_SEEDS, 10 * BLOCK), ids=name)
def test_many_more_answers_are_those_of_the_rows(seeds, tmp_path, templates, record_property):
    live(seeds, tmp_path, templates, record_property)


@pytest.mark.fuzz
@pytest.mark.parametrize("seeds", blocks(MANY_SPARK_SEEDS, 10 * SPARK_BLOCK), ids=name)
def test_so_are_many_more_on_spark(seeds, tmp_path, templates, record_property, spark):
    live(seeds, tmp_path, templates, record_property, spark)
