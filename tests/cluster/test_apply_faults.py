"""Applying a cluster while a write fails, or its answer is lost, in a process that continues."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from cluster.cluster_cases import AtWrite
from cluster.cluster_checks import apply_until_converged, list_graphs
from cluster.test_apply_cuts import SCENARIOS, add_book, count_books
from omnigraph.cluster import apply_cluster, read_cluster_status
from omnigraph.errors import ClusterError, StorageFailure, StorageKind
from omnigraph.storage.objects.object_store import install_observer

pytestmark = [pytest.mark.crash, pytest.mark.usefixtures("tables_in_turn")]


class FailAt:
    """Fails one durable write: before it is made, or after it took effect."""

    def __init__(self, number: int | None, *, is_made: bool) -> None:
        self._number, self._is_made = number, is_made
        self.writes = 0

    def before(self, action: str, path: str) -> None:
        if self.writes == self._number and not self._is_made:
            self.writes += 1
            raise StorageFailure(StorageKind.TRANSIENT, f"no answer to {action} {path}")

    def after(self, action: str, path: str) -> None:
        self.writes += 1
        if self.writes - 1 == self._number and self._is_made:
            raise StorageFailure(StorageKind.TRANSIENT, f"no answer to {action} {path}")


@pytest.fixture
def template(applied_cluster, tmp_path) -> Path:
    """A cluster in which everything is about to change."""
    place = tmp_path / "template"
    shutil.copytree(applied_cluster, place)
    add_book(place)
    SCENARIOS["everything"].prepare(place)
    return place


def apply_failing(folder: Path, fault: FailAt) -> str | None:
    """Return the code of the error that an apply reports, or None."""
    install_observer(fault)
    try:
        apply_cluster(folder, actor="maria")
    except ClusterError as error:
        return next(one.code for one in error.diagnostics if one.is_error)
    finally:
        install_observer(None)
    return None


def count_writes(template: Path) -> int:
    counting = FailAt(None, is_made=False)
    whole = template.parent / "whole"
    shutil.copytree(template, whole)
    assert apply_failing(whole, counting) is None
    return counting.writes


def fail(template: Path, number: int, *, is_made: bool) -> str | None:
    place = template.parent / f"fault-{number}-{is_made}"
    shutil.copytree(template, place)
    code = apply_failing(place, FailAt(number, is_made=is_made))
    lock = read_cluster_status(place).state.lock_id
    assert lock is None or code == "state_lock_error", "a lock was left"
    status = apply_until_converged(place)
    assert list_graphs(status) == SCENARIOS["everything"].graphs
    assert count_books(place) == 1
    shutil.rmtree(place)
    return code


def test_an_apply_reports_a_failed_write_and_can_be_repeated(template) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng, writes = random.Random(seed), count_writes(template)
    for is_made in (False, True):
        fail(template, rng.randrange(writes), is_made=is_made)


@pytest.mark.parametrize("moment", ["put recoveries/", "put resources/", "put_if_match state.json"])
def test_an_apply_interrupted_from_the_keyboard_releases_its_lock(template, moment) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    install_observer(AtWrite(moment, interrupt))
    try:
        with pytest.raises(KeyboardInterrupt):
            apply_cluster(template, actor="maria")
    finally:
        install_observer(None)
    assert read_cluster_status(template).state.lock_id is None
    assert list_graphs(apply_until_converged(template)) == SCENARIOS["everything"].graphs


@pytest.mark.slow
@pytest.mark.parametrize("is_made", [False, True], ids=["failed", "answer lost"])
def test_an_apply_reports_any_failed_write_and_can_be_repeated(template, is_made) -> None:
    codes = [fail(template, n, is_made=is_made) for n in range(count_writes(template))]
    print(codes)
    reported = [code for code in codes if code is not None]
    assert len(reported) > len(codes) // 2
