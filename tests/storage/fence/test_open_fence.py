"""The choice of a fence for a root, by the capabilities of its storage and the setting."""

from __future__ import annotations

import fcntl
import json
import logging
from dataclasses import replace

import pytest

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import UlidSource
from omnigraph.settings import FenceMode
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import WRITER_LEASE
from omnigraph.storage.lease_fence import LeaseFence, open_fence
from omnigraph.storage.local_fence import LocalFence
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.objects.open_store import ObservedStore, open_store
from omnigraph.storage.writer_fence import ProcessFence
from storage.objects.scripted_s3 import running_scripted_s3


def open_with(store, mode):
    return open_fence(store, mode, UlidSource())


@pytest.fixture
def server():
    with running_scripted_s3() as scripted:
        yield scripted


@pytest.mark.parametrize("mode", [FenceMode.AUTO, FenceMode.REQUIRED])
def test_a_directory_is_fenced_by_a_lock_file(tmp_path, mode):
    fence = open_with(ObservedStore(LocalObjectStore(tmp_path), None), mode)
    assert isinstance(fence, LocalFence)
    assert fence.spans_processes


@pytest.mark.parametrize("mode", [FenceMode.AUTO, FenceMode.REQUIRED])
def test_a_bucket_is_fenced_by_a_lease(server, mode):
    fence = open_with(open_store(server.root, server.settings), mode)
    assert isinstance(fence, LeaseFence)
    with fence.acquire(600) as guard:
        guard.check()


def test_a_lease_has_the_requested_term(server):
    settings = replace(server.settings, lease_term_s=6.0)
    root = GraphRoot.at(server.root, settings)
    with root.acquire_fence():
        assert json.loads(root.store.get(WRITER_LEASE))["term_s"] == 6.0


def test_threads_exclude_each_other_even_when_the_fence_is_off(tmp_path):
    fence = open_with(LocalObjectStore(tmp_path), FenceMode.OFF)
    assert isinstance(fence, ProcessFence)
    assert not fence.spans_processes
    assert list(tmp_path.iterdir()) == []


def test_locks_that_do_not_exclude_are_warned_about_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    store = LocalObjectStore(tmp_path)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert not open_with(store, FenceMode.AUTO).spans_processes
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(tmp_path) in caplog.text


def test_a_required_fence_refuses_locks_that_do_not_exclude(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with pytest.raises(StorageFailure, match="apart") as raised:
        open_with(LocalObjectStore(tmp_path), FenceMode.REQUIRED)
    assert raised.value.kind is StorageKind.CONFIGURATION


def test_a_required_fence_refuses_a_store_without_conditional_replacement(server):
    server.is_blind = True
    store = open_store(server.root, server.settings)
    with pytest.raises(StorageFailure, match="conditionally"):
        open_with(store, FenceMode.REQUIRED)
    assert not open_with(store, FenceMode.AUTO).spans_processes
