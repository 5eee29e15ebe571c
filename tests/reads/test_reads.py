"""Three engines that read, against rows in plain Python, in one process.

Embedded queries and rows, `.gq` on Spark, and the data source with its frames and views; between
the reads the graph is written, branched, optimized, cleaned up, removed and made again at its path.
`READS_SEED` moves the seeds. Run with `-rP` to see the counts of what was tried.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from reads.read_coverage import find_untried
from reads.running import describe, run_seeds
from reads.templates import Templates

FIRST = int(os.environ.get("READS_SEED", "0"))
BLOCK, SPARK_BLOCK = 49, 5
SEEDS = range(FIRST, FIRST + 487)
SPARK_SEEDS = [
    FIRST + seed for seed in (462, 465, 466, 469, 470, 471, 478, 479, 483, 486, 496, 498, 499)
]
"""Short runs that try everything between them; the long ones are left to the long run."""
MANY_SEEDS = range(FIRST + 10_000, FIRST + 19_200)
MANY_SPARK_SEEDS = [*range(FIRST + 460, FIRST + 500), *range(FIRST + 19_200, FIRST + 20_000)]


def blocks(seeds: Sequence[int], size: int) -> list[Sequence[int]]:
    return [seeds[at : at + size] for at in range(0, len(seeds), size)]


def name(seeds: Sequence[int]) -> str:
    return f"{seeds[0]}-{seeds[-1]}"


@pytest.fixture(scope="module")
def quick_folder(tmp_path_factory):
    """In memory where the machine has a place for it: these runs are about answers, not disks."""
    memory = Path("/dev/shm")
    if not (memory.is_dir() and os.access(memory, os.W_OK)):
        memory = tmp_path_factory.mktemp("runs")
    with tempfile.TemporaryDirectory(prefix="omnigraph-reads-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def templates(quick_folder):
    folder = quick_folder / "templates"
    folder.mkdir()
    return Templates(folder)


@pytest.fixture(scope="module")
def tried():
    """Everything that was tried by the runs of the default suite, and by how many of them."""
    return {"local": Counter(), "Spark": Counter(), "seeds": Counter()}


def check_seeds(seeds, folder, templates, record_property, session=None):
    tally = run_seeds(seeds, folder, templates, session)
    print(describe(tally, seeds))
    record_property("seeds", len(seeds))
    record_property("states", sum(n for kind, n in tally.items() if " / " in kind))
    return tally


@pytest.mark.parametrize("seeds", blocks(SEEDS, BLOCK), ids=name)
def test_every_answer_is_that_of_the_rows(seeds, quick_folder, templates, record_property, tried):
    tried["local"] += check_seeds(seeds, quick_folder, templates, record_property)
    tried["seeds"]["local"] += len(seeds)


@pytest.mark.parametrize("seeds", blocks(SPARK_SEEDS, SPARK_BLOCK), ids=name)
def test_so_is_every_answer_on_spark(seeds, quick_folder, templates, record_property, tried, spark):
    tried["Spark"] += check_seeds(seeds, quick_folder, templates, record_property, spark)
    tried["seeds"]["Spark"] += len(seeds)


@pytest.mark.parametrize(("engine", "seeds"), [("local", SEEDS), ("Spark", SPARK_SEEDS)])
def test_the_runs_tried_everything(engine, seeds, tried):
    if FIRST or tried["seeds"][engine] < len(seeds):
        pytest.skip("only the default seeds, all of them, are known to try everything")
    print(describe(tried[engine], seeds))
    assert find_untried(tried[engine], engine) == []


@pytest.mark.fuzz
@pytest.mark.parametrize("seeds", blocks(MANY_SEEDS, 2 * BLOCK), ids=name)
def test_many_more_answers_are_those_of_the_rows(seeds, quick_folder, templates, record_property):
    check_seeds(seeds, quick_folder, templates, record_property)


@pytest.mark.fuzz
@pytest.mark.parametrize("seeds", blocks(MANY_SPARK_SEEDS, 2 * SPARK_BLOCK), ids=name)
def test_so_are_many_more_on_spark(seeds, quick_folder, templates, record_property, spark):
    check_seeds(seeds, quick_folder, templates, record_property, spark)
