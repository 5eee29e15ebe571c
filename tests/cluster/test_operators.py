"""Concurrent operators of one cluster, in processes of their own: one wins, others are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import omnigraph
from cluster.cluster_cases import AtWrite
from cluster.cluster_checks import apply_until_converged, check_converged
from cluster.test_apply_cuts import edit
from commands.quick_command import quick_command
from omnigraph.cluster import apply_cluster, find_root, plan_cluster, read_cluster_status
from omnigraph.cluster.cluster_apply import ClusterApplyResult
from omnigraph.errors import ClusterError
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.objects.object_store import install_observer

REFUSALS = {"state_lock_held", "state_cas_mismatch", "cluster_recovery_pending"}


@pytest.fixture
def folder(applied_cluster, tmp_path) -> Path:
    shutil.copytree(applied_cluster, tmp_path / "one")
    return tmp_path / "one"


def make_second(folder: Path) -> Path:
    """Another working tree of the same cluster, with another policy."""
    other = folder.parent / "two"
    ignored = shutil.ignore_patterns("__cluster", "graphs")
    shutil.copytree(folder, other, ignore=ignored)
    edit(other, "cluster.yaml", "version: 1\n", "version: 1\nstorage: ../one\n")
    edit(other, "readers.policy.yaml", "ada", "ben")
    return other


def start(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        quick_command("cluster", "apply", "--json"),
        cwd=folder,
        stdout=subprocess.PIPE,
        env={**os.environ, "OMNIGRAPH_HOME": str(folder.parent)},
    )


def finish(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=600)
    document = json.loads(out)
    assert process.returncode == (0 if document["ok"] else 1)
    return document


def codes(document: dict[str, Any]) -> list[str]:
    return [one["code"] for one in document["diagnostics"] if one["severity"] == "error"]


def interrupted_by(folder: Path, moment: str, other: Path) -> dict[str, Any]:
    """Return the result of another operator that runs during one of our writes."""
    answers: list[dict[str, Any]] = []
    install_observer(AtWrite(moment, lambda: answers.append(finish(start(other)))))
    try:
        apply_cluster(folder)
    finally:
        install_observer(None)
    return answers[0]


def test_a_second_operator_is_refused_with_the_holder_of_the_lock(folder) -> None:
    other = make_second(folder)
    edit(folder, "library.pg", "title: String", "title: String  pages: I32?")
    refused = interrupted_by(folder, "put recoveries/", other)
    assert codes(refused) == ["state_lock_held"]
    assert f"process {os.getpid()}" in refused["diagnostics"][-1]["message"]
    assert check_converged(folder)
    assert [one.resource for one in plan_cluster(other).changes] == [
        "graph.library",
        "policy.readers",
        "schema.library",
    ]


def test_without_a_lock_the_first_write_of_the_ledger_wins(folder) -> None:
    other = make_second(folder)
    for place in (folder, other):
        edit(place, "cluster.yaml", "version: 1\n", "version: 1\nstate: {lock: false}\n")
    edit(folder, "readers.policy.yaml", "ada", "cy")
    before = read_cluster_status(folder)
    assert find_root(str(other)) == find_root(str(folder))
    won: list[dict[str, Any]] = []
    install_observer(AtWrite("put resources/policy", lambda: won.append(finish(start(other)))))
    try:
        with pytest.raises(ClusterError) as lost:
            apply_cluster(folder)
    finally:
        install_observer(None)
    assert lost.value.codes[-1] == "state_cas_mismatch"
    assert isinstance(lost.value.result, ClusterApplyResult)
    assert not lost.value.result.state_written
    assert won[0]["converged"]
    after = read_cluster_status(other)
    assert after.state.state_revision == before.state.state_revision + 1
    assert plan_cluster(other).changes == ()
    assert [one.resource for one in plan_cluster(folder).changes] == ["policy.readers"]


@pytest.mark.parametrize("locks", [True, False])
def test_each_of_many_concurrent_operators_wins_or_is_refused(folder, locks) -> None:
    places = [folder, make_second(folder)]
    for place in places:
        if not locks:
            edit(place, "cluster.yaml", "version: 1\n", "version: 1\nstate: {lock: false}\n")
    before = read_cluster_status(folder).state.state_revision
    running = [start(places[number % 2]) for number in range(4)]
    ended = [finish(process) for process in running]
    for document in ended:
        assert document["ok"] or set(codes(document)) <= REFUSALS, document["diagnostics"]
    written = sum(document["ok"] and document["state_written"] for document in ended)
    assert read_cluster_status(folder).state.state_revision == before + written
    assert apply_cluster(places[0]).converged
    check_converged(folder)


def test_a_cancelled_job_releases_its_lock(folder) -> None:
    edit(folder, "people.pg", "name: String @key", "name: String @key  born: I32?")
    recoveries = folder / "__cluster" / "recoveries"
    omnigraph.open(folder / "graphs/people.omni")  # the first open of a copy records its address
    with GraphRoot.at(str(folder / "graphs/people.omni")).acquire_fence():
        job = subprocess.Popen(
            [sys.executable, "-m", "omnigraph.cli", "cluster", "apply"],
            cwd=folder,
            env={
                **os.environ,
                "OMNIGRAPH_HOME": str(folder.parent),
                "OMNIGRAPH_WRITER_WAIT": "600",
            },
        )
        try:
            while not list(recoveries.glob("*.json")):
                assert job.poll() is None
                time.sleep(0.01)
            assert (folder / "__cluster" / "lock.json").exists()
            job.terminate()
            assert job.wait(600) == 128 + signal.SIGTERM
        finally:
            job.kill()
    assert not (folder / "__cluster" / "lock.json").exists()
    apply_until_converged(folder)
