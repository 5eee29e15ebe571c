"""Fences between real processes: exclusion, sudden death, and a holder that stalls."""

from __future__ import annotations

import os
import signal
import time

import pytest

TERM_S = 3.0


@pytest.fixture(
    params=["local", "lease", pytest.param("s3", marks=pytest.mark.object_store)],
)
def shared(request, tmp_path):
    """The arguments a worker needs to reach one graph root, by each kind of fence."""
    root = tmp_path / "graph"
    root.mkdir()
    match request.param:
        case "local":
            return ("local", root), None
        case "lease":
            return ("lease", root, TERM_S), None
        case _:
            server = request.getfixturevalue("s3_server")
            return ("lease", server.new_root(), TERM_S), server.environment


def pair(start_writer, shared):
    arguments, environment = shared
    return [start_writer(*arguments, environment=environment) for _ in range(2)]


def test_two_processes_never_hold_at_once(start_writer, shared):
    first, second = pair(start_writer, shared)
    assert first.ask("acquire 600") == "held 1 False"
    assert first.ask("check") == "ours"
    assert second.ask("acquire 0.2").startswith(f"busy process {first.pid} on ")
    assert first.ask("release") == "released"
    assert second.ask("acquire 600") == "held 2 False"
    assert second.ask("check") == "ours"


def test_a_waiting_process_gets_its_turn(start_writer, shared):
    first, second = pair(start_writer, shared)
    first.ask("acquire 600")
    second.start("acquire 600")
    assert first.ask("check") == "ours"
    first.ask("release")
    assert second.answer() == "held 2 False"


def test_a_killed_holder_is_followed_and_known_to_have_left_things(start_writer, shared):
    first, second = pair(start_writer, shared)
    first.ask("acquire 600")
    second.start("acquire 600")
    first.kill()
    assert second.answer() == "held 2 True"
    assert second.ask("check") == "ours"


def test_a_holder_that_renews_is_not_overtaken(start_writer, tmp_path):
    first, second = pair(start_writer, (("lease", tmp_path, TERM_S), None))
    first.ask("acquire 600")
    assert second.ask(f"acquire {TERM_S * 2.5}").startswith("busy")
    assert first.ask("check") == "ours"


@pytest.mark.parametrize("where", ["lease", pytest.param("s3", marks=pytest.mark.object_store)])
def test_a_stalled_holder_is_overtaken_and_finds_out(start_writer, request, tmp_path, where):
    if where == "lease":
        shared = ("lease", tmp_path, TERM_S), None
    else:
        server = request.getfixturevalue("s3_server")
        shared = ("lease", server.new_root(), TERM_S), server.environment
    stalled, other = pair(start_writer, shared)
    assert stalled.ask("acquire 600") == "held 1 False"
    stalled.send(signal.SIGSTOP)
    assert other.ask("acquire 600") == "held 2 True"
    stalled.send(signal.SIGCONT)
    assert stalled.ask("check") == "lost writer_fence: epoch 1 -> epoch 2"
    assert stalled.ask("release") == "released"
    assert other.ask("check") == "ours"
    assert other.ask("release") == "released"


def test_a_stalled_holder_without_a_successor_continues(start_writer, tmp_path):
    stalled = start_writer("lease", tmp_path, TERM_S)
    stalled.ask("acquire 600")
    stalled.send(signal.SIGSTOP)
    time.sleep(TERM_S * 1.2)
    stalled.send(signal.SIGCONT)
    assert stalled.ask("check") == "ours"


def test_short_waits_take_over_too_when_the_holder_has_exited(start_writer, tmp_path):
    first, second = pair(start_writer, (("lease", tmp_path, TERM_S), None))
    first.ask("acquire 600")
    first.kill()
    assert second.ask(f"acquire {TERM_S * 0.8}") == "held 2 True"


def test_a_forked_child_does_not_keep_the_lock_of_a_dead_parent(start_writer, tmp_path):
    first, second = pair(start_writer, (("local", tmp_path), None))
    first.ask("acquire 600")
    child = int(first.ask("fork-and-keep").split()[1])
    try:
        assert second.ask("acquire 0.1").startswith("busy")
        first.kill()
        assert second.ask("acquire 600") == "held 2 True"
    finally:
        os.kill(child, signal.SIGKILL)


def test_many_processes_all_make_progress_and_lose_nothing(start_writer, tmp_path):
    count, rounds = 6, 25
    (tmp_path / "counter").write_text("0")
    writers = [start_writer("local", tmp_path) for _ in range(count)]
    for writer in writers:
        writer.start(f"loop {rounds}")
    assert all(writer.answer().startswith("looped") for writer in writers)
    assert (tmp_path / "counter").read_text() == str(count * rounds)


@pytest.mark.slow
def test_none_of_sixteen_busy_processes_starves(start_writer, tmp_path):
    count, rounds = 16, 100
    (tmp_path / "counter").write_text("0")
    writers = [start_writer("local", tmp_path) for _ in range(count)]
    for writer in writers:
        writer.start(f"loop {rounds}")
    waits = [float(writer.answer().split()[1]) for writer in writers]
    print("longest waits:", sorted(waits))
    assert (tmp_path / "counter").read_text() == str(count * rounds)
    assert max(waits) < 30
