"""Clusters whose storage root is in a bucket: the same files, the same refusals."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import omnigraph
from cluster.cluster_cases import AtWrite
from cluster.conftest import write_files
from cluster.test_apply_cuts import edit
from crash.crash_scenario import CLUSTER_APPLY
from omnigraph.cluster import (
    apply_cluster,
    approve_change,
    find_graph_uri,
    import_cluster,
    plan_cluster,
    read_applied_policy,
    read_applied_queries,
    read_cluster_status,
    read_serving_snapshot,
    refresh_cluster,
    unlock_cluster,
)
from omnigraph.errors import ClusterError
from omnigraph.settings import Settings
from omnigraph.storage.objects.object_store import install_observer
from store_places import LEASE_TERM_S, Bucket

pytestmark = pytest.mark.object_store


@pytest.fixture
def root(s3_server) -> Bucket:
    return Bucket.on(s3_server)


@pytest.fixture
def folder(tmp_path, root) -> Path:
    write_files(tmp_path)
    edit(tmp_path, "cluster.yaml", "version: 1\n", f"version: 1\nstorage: {root.uri}/\n")
    return tmp_path


def test_a_cluster_in_a_bucket_behaves_as_one_on_a_disk(folder, root, s3_server) -> None:
    settings = s3_server.settings
    assert apply_cluster(folder, actor="maria", settings=settings).converged
    assert plan_cluster(folder, settings=settings).changes == ()
    assert not (folder / "__cluster").exists()
    for place in (str(folder), root.uri):
        snapshot = read_serving_snapshot(place, settings=settings)
        assert [one.id for one in snapshot.graphs] == ["library", "people"]
        assert (
            find_graph_uri(place, "people", settings=settings) == f"{root.uri}/graphs/people.omni"
        )
        assert read_applied_policy(place, graph_id="library", settings=settings).text
        assert len(read_applied_queries(place, "library", settings=settings)) == 1
    edit(folder, "library.pg", "title: String", "title: String  pages: I32?")
    edit(folder, "cluster.yaml", "  people:\n    schema: people.pg\n", "")
    approve_change(folder, "graph.people", actor="maria", settings=settings)
    assert apply_cluster(folder, actor="maria", settings=settings).converged
    names = {name.split("/")[1] for name, _ in root.objects() if name.startswith("graphs/")}
    assert names == {"library.omni"}
    library = omnigraph.open(f"{root.uri}/graphs/library.omni", read_only=True, settings=settings)
    assert "pages" in library.schema
    assert library.commits()[0].actor_id == "maria"
    assert refresh_cluster(folder, settings=settings).ok


def test_one_of_two_operators_wins_in_a_bucket(folder, s3_server) -> None:
    settings = s3_server.settings
    apply_cluster(folder, settings=settings)
    edit(folder, "readers.policy.yaml", "ada", "ben")

    def come_between() -> None:
        with pytest.raises(ClusterError) as locked:
            apply_cluster(folder, settings=settings)
        assert locked.value.codes == ("state_lock_held",)
        lock = read_cluster_status(folder, settings=settings).state.lock_id
        unlock_cluster(folder, lock, settings=settings)
        assert apply_cluster(folder, settings=settings).converged

    install_observer(AtWrite("put resources/policy", come_between))
    try:
        with pytest.raises(ClusterError) as lost:
            apply_cluster(folder, settings=settings)
    finally:
        install_observer(None)
    assert lost.value.codes == ("state_cas_mismatch",)
    assert plan_cluster(folder, settings=settings).changes == ()


def test_a_lost_ledger_in_a_bucket_is_imported(folder, root, s3_server) -> None:
    settings = s3_server.settings
    apply_cluster(folder, settings=settings)
    before = read_cluster_status(folder, settings=settings).resource_digests
    root.client().delete(f"{root.prefix}__cluster/state.json")
    with pytest.raises(ClusterError) as missing:
        apply_cluster(folder, settings=settings)
    assert missing.value.codes == ("state_missing",)
    assert import_cluster(folder, settings=settings).ok
    assert apply_cluster(folder, settings=settings).converged
    assert read_cluster_status(folder, settings=settings).resource_digests == before


def converge_in_bucket(folder: Path, settings: Settings) -> None:
    """Recover the cluster as an operator does after a crash."""
    lock = read_cluster_status(folder, settings=settings).state.lock_id
    if lock is not None:
        unlock_cluster(folder, lock, settings=settings)
    applied = apply_cluster(folder, actor="maria", settings=settings)
    assert applied.converged, [str(one) for one in applied.diagnostics]
    assert plan_cluster(folder, settings=settings).changes == ()
    assert not apply_cluster(folder, settings=settings).state_written
    status = read_cluster_status(folder, settings=settings)
    assert status.diagnostics == ()
    assert {str(one.status) for one in status.resource_statuses.values()} == {"applied"}


@pytest.mark.crash
@pytest.mark.parametrize("name", ["create", "schema and deletion"])
def test_an_apply_killed_in_a_bucket_is_finished_by_the_next_one(
    name, workers, tmp_path, s3_server
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    environment = {**s3_server.environment, "OMNIGRAPH_LEASE_TERM": str(LEASE_TERM_S)}
    settings = Settings.from_environment(environment)
    for after in sorted(rng.sample(range(45), 4)):
        folder, root = tmp_path / f"cut-{after}", Bucket.on(s3_server)
        folder.mkdir()
        write_files(folder)
        edit(folder, "cluster.yaml", "version: 1\n", f"version: 1\nstorage: {root.uri}\n")
        if name != "create":
            apply_cluster(folder, settings=settings)
            edit(folder, "library.pg", "title: String", "title: String  pages: I32?")
            edit(folder, "cluster.yaml", "  people:\n    schema: people.pg\n", "")
            approve_change(folder, "graph.people", actor="maria", settings=settings)
        workers.run(folder, CLUSTER_APPLY, after, environment=environment)
        converge_in_bucket(folder, settings)
