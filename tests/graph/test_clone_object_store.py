"""Cloning and copying graphs between folders and buckets."""

from __future__ import annotations

import random
from base64 import b64encode

import pytest

import omnigraph
from graph.music_graph import LABEL, RECORDS, SCHEMA, contents, everything, run
from omnigraph.errors import CloneUnfinished
from omnigraph.storage.objects.object_store import CHUNK_BYTES, install_observer
from store_places import Bucket, copy_graph, init_graph, open_graph, root_of, settings_of

pytestmark = pytest.mark.object_store

FOLDER, BUCKET = "folder", "bucket"
WAYS = pytest.mark.parametrize(
    ("source", "target"), [(FOLDER, BUCKET), (BUCKET, FOLDER), (BUCKET, BUCKET)], indirect=True
)


def place_of(kind, s3_server, tmp_path, name):
    return Bucket.on(s3_server) if kind == BUCKET else tmp_path / name


@pytest.fixture
def source(request, s3_server, tmp_path):
    """A graph with a branch, and a branch of that."""
    place = place_of(request.param, s3_server, tmp_path, "source.omni")
    graph = init_graph(place, SCHEMA)
    graph.load(RECORDS, "append")
    graph.create_branch("dev")
    run(graph, LABEL.format("on-dev"), branch="dev")
    graph.create_branch("deep", source="dev")
    run(graph, 'delete Label where slug = "nova"', branch="deep")
    run(graph, LABEL.format("on-main"))
    return place


@pytest.fixture
def target(request, s3_server, tmp_path):
    return place_of(request.param, s3_server, tmp_path, "target.omni")


def clone(source, target, **options):
    chosen = source if isinstance(source, Bucket) else target
    return omnigraph.clone(str(source), str(target), settings=settings_of(chosen), **options)


def remove(place):
    root_of(place).store.delete_prefix("__manifest")
    for folder in ("nodes", "edges"):
        root_of(place).store.delete_prefix(folder)


@WAYS
def test_a_clone_is_the_same_graph_on_the_other_side(source, target):
    before = everything(open_graph(source))
    assert clone(source, target).branches == ("main", "deep", "dev")
    remove(source)
    graph = open_graph(target)
    assert everything(graph) == before
    run(graph, LABEL.format("after"), branch="deep")
    graph.cleanup(keep=1, confirm=True)
    assert graph.verify(deep=True).is_sound


@WAYS
def test_a_shallow_clone_of_one_branch(source, target):
    before = contents(open_graph(source), branch="dev")
    clone(source, target, branches=["dev"], shallow=True)
    graph = open_graph(target)
    assert graph.branches() == ["main", "dev"]
    assert contents(graph, branch="dev") == before
    assert graph.verify(deep=True).is_sound


class Cut(BaseException):
    pass


class CutAfter:
    def __init__(self, writes):
        self.left = writes

    def before(self, action, path):
        pass

    def after(self, action, path):
        self.left -= 1
        if self.left == 0:
            raise Cut


@pytest.mark.parametrize(("source", "target"), [(FOLDER, BUCKET)], indirect=True)
def test_a_clone_that_was_interrupted_is_started_over(source, target):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    before = everything(open_graph(source))
    install_observer(CutAfter(random.Random(seed).randrange(10, 40)))
    try:
        with pytest.raises(Cut):
            clone(source, target)
    finally:
        install_observer(None)
    with pytest.raises(CloneUnfinished):
        open_graph(target, read_only=True)
    clone(source, target, force=True)
    assert everything(open_graph(target)) == before


@pytest.mark.parametrize("source", [BUCKET], indirect=True)
def test_a_graph_copied_inside_a_bucket_does_not_need_the_original(source, s3_server):
    before = everything(open_graph(source))
    copy = Bucket.on(s3_server)
    copy_graph(source, copy)
    remove(source)
    assert everything(open_graph(copy, read_only=True)) == before
    graph = open_graph(copy)
    run(graph, LABEL.format("after"), branch="deep")
    graph.cleanup(keep=1, confirm=True)
    assert graph.verify(deep=True).is_sound


def test_files_larger_than_a_piece_arrive_whole(s3_server, tmp_path):
    photo = random.Random(7).randbytes(2 * CHUNK_BYTES + 12_345)
    graph = omnigraph.init(tmp_path / "b.omni", "node P { slug: String @key  photo: Blob? }")
    text = f"base64:{b64encode(photo).decode()}"
    graph.load([{"type": "P", "data": {"slug": "a", "photo": text}}], "append")
    there, back = Bucket.on(s3_server), tmp_path / "back.omni"
    clone(tmp_path / "b.omni", there)
    clone(there, back)
    for place in (there, back):
        found = open_graph(place, read_only=True).read_blob("P", "a", "photo")
        assert found.read() == photo
