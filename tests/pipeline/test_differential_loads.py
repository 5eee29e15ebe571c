"""Random loads end the same way through the small path and the tasks of the pipeline."""

from __future__ import annotations

import pytest

from pipeline.differential import compare


@pytest.mark.parametrize("block", range(4))
def test_inline_tasks_do_what_the_small_path_does(templates, tmp_path, block):
    ends = [
        compare(templates, tmp_path, seed, ("small", "inline"))
        for seed in range(block * 40, block * 40 + 40)
    ]
    assert ends.count("loaded") >= 5, ends
    assert {"rules", "key"} <= set(ends), ends


@pytest.mark.fuzz
def test_a_long_run_of_random_loads_ends_the_same_way(templates, tmp_path):
    for seed in range(1000, 5500):
        compare(templates, tmp_path, seed, ("small", "inline"))
