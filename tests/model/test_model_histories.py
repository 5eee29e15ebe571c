"""Random histories of a graph agree with the oracle, step by step."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from model.oracle_machine import GraphHistory, make_template
from omnigraph.storage.tables import row_lookup

DEFAULT = settings(
    max_examples=40,
    stateful_step_count=20,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
LONG = settings(DEFAULT, max_examples=400, stateful_step_count=50)


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    GraphHistory.template = make_template(tmp_path_factory.mktemp("model") / "template.omni")
    return GraphHistory


def test_short_histories(histories):
    run_state_machine_as_test(histories, settings=DEFAULT)
    print(sorted(histories.seen.items()))


def test_short_histories_of_a_graph_too_large_to_remember(histories, monkeypatch):
    """Rows are found as in large tables: some in memory, the rest by the index and by scanning."""
    monkeypatch.setattr(row_lookup, "SMALL_FRAGMENT_ROWS", 1)
    monkeypatch.setattr(row_lookup, "MAX_DIRECTORY_ROWS", 4)
    run_state_machine_as_test(histories, settings=settings(DEFAULT, max_examples=16))


@pytest.mark.slow
@pytest.mark.fuzz
def test_long_histories(histories):
    run_state_machine_as_test(
        histories, settings=settings(LONG, phases=[Phase.generate, Phase.shrink])
    )
    print(sorted(histories.seen.items()))
