"""Behaviour particular to files: temporaries, full disks, missing rights, links."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import UlidSource
from omnigraph.storage.layout import probe_path
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.objects.open_store import require_create_if_absent

WORKER = Path(__file__).with_name("fault_worker.py")
WRITES = ("put", "put_if_absent", "put_if_match")


@pytest.fixture
def root(tmp_path):
    return tmp_path / "graph"


@pytest.fixture
def store(root):
    return LocalObjectStore(root)


def run_worker(*arguments, before=()):
    command = [*before, sys.executable, str(WORKER), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    outcomes, *names = map(json.loads, done.stdout.splitlines())
    return outcomes, (names[0] if names else None)


def in_a_mount(script):
    """A command prefix that runs the worker after `script`, in a mount namespace of its own."""
    prefix = ["unshare", "--mount"] + ([] if os.getuid() == 0 else ["--map-root-user"])
    probe = [*prefix, "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    try:
        can_mount = subprocess.run(probe, capture_output=True).returncode == 0
    except FileNotFoundError:
        can_mount = False
    if not can_mount:
        pytest.skip("this machine does not let us mount a file system of our own")
    return [*prefix, "sh", "-c", f'{script} && exec "$@"', "sh"]


def test_nothing_is_written_before_the_first_put(store, root):
    store.find("state")
    store.exists("state")
    store.list("")
    store.delete("state")
    store.delete_prefix("a")
    assert not root.exists()


def test_writing_leaves_no_temporary_behind(store, root):
    store.put("a/state", b"1")
    store.put_if_absent("a/claim", b"1")
    store.put_if_absent("a/claim", b"2")
    store.put_if_match("a/state", b"2", store.get_versioned("a/state").tag)
    store.put_if_match("a/state", b"3", "stale")
    assert sorted(path.name for path in (root / "a").iterdir()) == ["claim", "state"]


def test_leftovers_of_a_killed_writer_are_not_listed(store, root):
    store.put("a/state", b"1")
    (root / "a" / ".omnigraph-tmp-0123").write_bytes(b"half")
    (root / "b").mkdir()
    (root / "b" / ".omnigraph-tmp-0123").write_bytes(b"half")
    assert store.list("a") == ("state",)
    assert not store.exists("b")
    assert store.list_prefixes("") == ("a",)


def test_equal_content_has_an_equal_tag(store):
    # The reason why an object replaced by tag must carry a nonce.
    store.put("a", b"1")
    first = store.get_versioned("a").tag
    store.put("a", b"2")
    store.put("a", b"1")
    assert store.get_versioned("a").tag == first


def test_a_full_disk_is_typed_and_leaves_the_old_object(root):
    LocalObjectStore(root).put("state", b"old")
    outcomes, names = run_worker(root, "--file-limit", 4096)
    for write in WRITES:
        assert outcomes[write]["kind"] == StorageKind.CONFIGURATION
        assert str(root) in outcomes[write]["message"]
    assert outcomes["size"] == 3
    assert names == [".omnigraph-objects.lock"]


def test_a_file_system_without_room_is_typed_and_leaves_the_old_object(tmp_path):
    root = tmp_path / "small"
    root.mkdir()
    script = f"mount -t tmpfs -o size=256k tmpfs {root} && printf old > {root}/state"
    outcomes, names = run_worker(root, before=in_a_mount(script))
    for write in WRITES:
        assert outcomes[write]["kind"] == StorageKind.CONFIGURATION
        assert "No space left" in outcomes[write]["message"]
    assert outcomes["size"] == 3
    assert outcomes["delete"] == {"value": False}
    assert names == [".omnigraph-objects.lock"]


def test_a_read_only_file_system_is_typed_and_can_be_read(tmp_path):
    root = tmp_path / "fixed"
    root.mkdir()
    script = (
        f"mount -t tmpfs tmpfs {root} && printf old > {root}/state && mount -o remount,ro {root}"
    )
    outcomes, names = run_worker(root, before=in_a_mount(script))
    for write in (*WRITES, "delete"):
        assert outcomes[write]["kind"] == StorageKind.CONFIGURATION
    for read in ("find", "exists", "list"):
        assert outcomes[read] == {"value": True}
    assert names == ["state"]


def test_an_unreadable_object_is_never_absent():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        root = Path(folder) / "private"
        LocalObjectStore(root).put("state", b"old")
        root.chmod(0)
        try:
            outcomes, _ = run_worker(root, "--as-nobody")
        finally:
            root.chmod(0o755)
        assert outcomes.pop("size") is None
        kinds = {name: outcome.get("kind") for name, outcome in outcomes.items()}
        assert kinds == dict.fromkeys(kinds, StorageKind.CONFIGURATION)
        assert LocalObjectStore(root).get("state") == b"old"


def test_a_file_where_a_folder_must_be_is_a_configuration_failure(store, root):
    store.put("nodes", b"a file")
    for write in (store.put, store.put_if_absent):
        with pytest.raises(StorageFailure) as raised:
            write("nodes/x", b"")
        assert raised.value.kind is StorageKind.CONFIGURATION
    assert store.get("nodes") == b"a file"


def test_a_name_the_file_system_refuses_is_a_configuration_failure(store):
    with pytest.raises(StorageFailure) as raised:
        store.put("n" * 300, b"")
    assert raised.value.kind is StorageKind.CONFIGURATION


def test_a_file_system_without_hard_links_is_refused_and_left_clean(store, root, monkeypatch):
    def refuse(*_arguments, **_folders):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(StorageFailure, match="hard links") as raised:
        require_create_if_absent(store, UlidSource())
    assert raised.value.kind is StorageKind.CONFIGURATION
    assert list(root.iterdir()) == []


def test_a_link_whose_answer_was_lost_still_created_the_object(store, monkeypatch):
    link = os.link

    def link_and_forget(source, target, **folders):
        link(source, target, **folders)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", link_and_forget)
    assert store.put_if_absent("claim", b"mine")
    monkeypatch.undo()
    assert not store.put_if_absent("claim", b"other")


class FixedIds(UlidSource):
    def __init__(self, names):
        super().__init__()
        self._names = iter(names)

    def next(self):
        return next(self._names)


def test_a_probe_leaves_foreign_probes_alone(store):
    store.put(probe_path("a"), b"foreign")
    require_create_if_absent(store, FixedIds("aab"))
    assert store.list("") == (probe_path("a"),)
    assert store.get(probe_path("a")) == b"foreign"


def test_a_probe_gives_up_after_four_existing_names(store):
    for name in "abcd":
        store.put(probe_path(name), b"foreign")
    with pytest.raises(StorageFailure):
        require_create_if_absent(store, FixedIds("abcdefgh"))
    assert len(store.list("")) == 4


def test_deleting_a_tree_does_not_follow_links(store, tmp_path, root):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_bytes(b"")
    store.put("a/b/c", b"")
    (root / "a" / "link").symlink_to(tmp_path / "outside")
    store.delete_prefix("a")
    assert not (root / "a").exists()
    assert (tmp_path / "outside" / "kept").exists()
