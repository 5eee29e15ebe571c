"""Races between real processes: one winner each time, and no update lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from omnigraph.settings import Settings
from omnigraph.storage.objects.open_store import open_store

WORKER = Path(__file__).with_name("race_worker.py")
PROCESSES = 5


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.object_store)])
def shared_root(request, tmp_path):
    if request.param == "local":
        return str(tmp_path / "graph"), dict(os.environ)
    server = request.getfixturevalue("s3_server")
    return server.new_root(), os.environ | server.environment


def race(verb, uri, environment, rounds):
    command = [sys.executable, str(WORKER), verb, uri, str(rounds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [
        subprocess.Popen(command, **pipes, env=environment, text=True) for _ in range(PROCESSES)
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * PROCESSES
    start = time.time() + 0.2
    for process in processes:
        process.stdin.write(f"{start}\n")
        process.stdin.flush()
    answers = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    return [json.loads(answer) for answer in answers]


def test_of_many_processes_exactly_one_creates_each_object(shared_root):
    uri, environment = shared_root
    rounds = 100
    answers = race("create", uri, environment, rounds)
    winners = Counter(number for answer in answers for number in answer["result"])
    assert winners == Counter(range(rounds))
    store = open_store(uri, Settings.from_environment(environment))
    for answer in answers:
        for number in answer["result"]:
            assert store.get(f"claims/{number}") == str(answer["pid"]).encode() * 100
    assert len(store.list("claims")) == rounds


def test_processes_that_swap_lose_no_update(shared_root):
    uri, environment = shared_root
    rounds = 40 if uri.startswith("s3:") else 400
    store = open_store(uri, Settings.from_environment(environment))
    store.put("counter", b"0")
    answers = race("swap", uri, environment, rounds)
    assert store.get("counter") == b"%d" % (PROCESSES * rounds)
    assert sum(answer["result"] for answer in answers) > 0, "no two processes ever collided"
