"""Random loads end the same way in memory and through the tasks of the pipeline."""

from __future__ import annotations

import pytest

from omnigraph.pipeline.check_stages import Sizes
from pipeline.differential import compare
from pipeline.skip_errors_load import compare_left

TINY = Sizes(keys_per_task=4, keys_worth_a_task=2, rows_per_task=4)


@pytest.fixture
def divided(monkeypatch):
    """Keys and rows in many small shares."""
    monkeypatch.setattr("omnigraph.pipeline.bulk_load.SIZES", TINY)


@pytest.mark.parametrize("block", range(2))
def test_inline_tasks_do_what_the_small_path_does(templates, tmp_path, block):
    ends = [
        compare(templates, tmp_path, seed, ("small", "inline"))
        for seed in range(block * 40, block * 40 + 40)
    ]
    assert ends.count("loaded") >= 5, ends
    assert {"rules", "key"} <= set(ends), ends


def test_the_rest_of_a_load_with_skipped_rows_is_whole(paired_templates, tmp_path):
    ends = [compare_left(paired_templates, tmp_path, seed, ("inline",)) for seed in range(30)]
    assert set(ends) == {"loaded", "left out", "refused"}, ends


def test_the_same_is_left_out_however_the_work_is_divided(paired_templates, tmp_path, divided):
    for seed in range(30, 50):
        compare_left(paired_templates, tmp_path, seed, ("inline",))


@pytest.mark.fuzz
def test_a_long_run_of_random_loads_ends_the_same_way(templates, tmp_path):
    for seed in range(80, 4600):
        compare(templates, tmp_path, seed, ("small", "inline"))


@pytest.mark.fuzz
def test_a_long_run_of_loads_that_leave_out_gives_whole_graphs(paired_templates, tmp_path):
    for seed in range(50, 1000):
        compare_left(paired_templates, tmp_path, seed, ("inline",))
