"""Deletion of a graph of a cluster, next to links and similar names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cluster.cluster_cases import AtWrite
from cluster.cluster_checks import check_converged
from cluster.test_apply_cuts import delete_people
from omnigraph.cluster import apply_cluster, approve_change
from omnigraph.errors import BadRequest, ClusterError, WriterBusy
from omnigraph.settings import Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.objects.object_store import install_observer


@pytest.fixture
def folder(applied_cluster, tmp_path) -> Path:
    shutil.copytree(applied_cluster, tmp_path / "town")
    return tmp_path / "town"


def test_links_inside_a_graph_are_removed_and_their_targets_retained(folder) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    (folder / "graphs/people.omni/nodes/outside").symlink_to(outside)
    (folder / "graphs/people.omni/file").symlink_to(outside / "file")
    delete_people(folder)
    assert apply_cluster(folder).converged
    assert (outside / "file").read_text() == "mine"
    check_converged(folder)


def test_a_folder_of_graphs_that_is_a_link_is_not_followed(folder) -> None:
    shutil.move(folder / "graphs", folder.parent / "elsewhere")
    (folder / "graphs").symlink_to(folder.parent / "elsewhere")
    delete_people(folder)
    with pytest.raises(ClusterError) as refused:
        apply_cluster(folder)
    assert refused.value.codes == ("graph_delete_failed",)
    assert (folder.parent / "elsewhere/people.omni/__manifest").is_dir()


def test_graphs_with_similar_names_are_retained(folder) -> None:
    for name in ("people.omni.bak", "people.omnibus", "xpeople.omni"):
        (folder / "graphs" / name).mkdir()
        (folder / "graphs" / name / "file").write_text("mine")
    delete_people(folder)
    assert apply_cluster(folder).converged
    left = sorted(path.name for path in (folder / "graphs").iterdir())
    assert left == ["library.omni", "people.omni.bak", "people.omnibus", "xpeople.omni"]


def test_no_writer_begins_while_a_graph_is_deleted(folder) -> None:
    delete_people(folder)
    root = GraphRoot.at(str(folder / "graphs/people.omni"), Settings(writer_wait_s=0))
    refused: list[WriterBusy] = []

    def begin() -> None:
        with pytest.raises(WriterBusy) as busy:
            root.acquire_fence()
        refused.append(busy.value)

    install_observer(AtWrite("put recoveries/", begin))
    try:
        assert apply_cluster(folder).converged
    finally:
        install_observer(None)
    assert refused
    check_converged(folder)


def test_an_approval_needs_an_actor(folder) -> None:
    with pytest.raises(BadRequest, match="needs an actor"):
        approve_change(folder, "graph.people", actor=None)
