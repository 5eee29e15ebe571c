"""Calls made next to each other: where they run, who waits for them and learns of failures."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent import futures

import pytest

import omnigraph
from omnigraph.storage.concurrent_calls import ConcurrentCalls


def test_calls_happen_at_the_same_time_and_next_to_the_caller():
    meeting = threading.Barrier(3, timeout=600)
    with ConcurrentCalls(3) as beside:
        calls = [beside.start(meeting.wait) for _ in range(2)]
        here = meeting.wait()
    assert sorted([here, *(call.result() for call in calls)]) == [0, 1, 2]


def test_one_at_a_time_is_the_caller_in_the_order_given():
    seen = []
    with ConcurrentCalls(1) as beside:
        for number in range(3):
            beside.start(lambda number=number: seen.append((number, threading.current_thread())))
        assert seen == [(number, threading.current_thread()) for number in range(3)]


def test_no_more_happen_at_a_time_than_allowed():
    go, ended = threading.Event(), []
    with ConcurrentCalls(2) as beside:
        beside.start(lambda: ended.append(go.wait(600)))
        here = beside.start(threading.current_thread)
        assert here.result() is threading.current_thread()
        assert ended == []
        go.set()
    assert ended == [True]


def test_a_failure_is_raised_where_the_result_is_requested():
    with ConcurrentCalls(2) as beside:
        failed = beside.start(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            failed.result()


def test_a_failure_of_the_caller_waits_for_what_is_under_way():
    done = []

    def fail_meanwhile():
        with ConcurrentCalls(2) as beside:
            beside.start(lambda: (time.sleep(0.2), done.append(True)))
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail_meanwhile()
    assert done == [True]


def test_an_interrupt_waits_for_what_is_under_way():
    done, sent = [], threading.Event()
    waiter = threading.get_ident()

    def frame_that_waits():
        frame = sys._current_frames()[waiter]
        while frame is not None and frame.f_code is not futures.wait.__code__:
            frame = frame.f_back
        return frame

    def interrupt_twice():
        """Each time as soon as the caller waits, the second time for the second time."""
        before = None
        for _ in range(2):
            while (frame := frame_that_waits()) is None or frame is before:
                time.sleep(0.001)
            before = frame
            signal.pthread_kill(waiter, signal.SIGINT)  # another thread would not wake it
        sent.set()

    def work():
        assert sent.wait(600)
        done.append(True)

    with ConcurrentCalls(2) as beside:
        beside.start(work)
        threading.Thread(target=interrupt_twice).start()
        with pytest.raises(KeyboardInterrupt):
            beside.wait()
        assert done == [True]


ENDING = """
import atexit, sys
import omnigraph
schema = "node Person { name: String @key }\\nedge Knows: Person -> Person"
graph = omnigraph.init(sys.argv[1], schema)
two_tables = 'query q() { insert Person {name: "%s"} insert Knows {from: "%s", to: "%s"} }'
def write(name):
    graph.mutate(two_tables % (name, name, name))
write("first")
atexit.register(write, "last")
"""
FORKING = """
import os
from omnigraph.storage.concurrent_calls import ConcurrentCalls
def once():
    with ConcurrentCalls(2) as beside:
        return beside.start(os.getpid).result()
assert once() == os.getpid()
child = os.fork()
if child == 0:
    os._exit(0 if once() == os.getpid() else 1)
assert os.waitpid(child, 0)[1] == 0
"""


def run_program(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_a_write_while_the_interpreter_ends_is_run_in_turn(tmp_path):
    run_program(ENDING, tmp_path / "graph")
    names = [record for record in omnigraph.open(tmp_path / "graph").export() if "type" in record]
    assert sorted(record["data"]["name"] for record in names) == ["first", "last"]


def test_a_forked_child_has_threads_of_its_own():
    run_program(FORKING)
