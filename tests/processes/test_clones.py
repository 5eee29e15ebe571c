"""Cloning a graph while other processes write, clean and die."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import omnigraph
from omnigraph.errors import CloneUnfinished, GraphNotFound
from processes.process_checks import check_pairs, check_tables
from processes.process_handles import PLACES
from store_places import environment_of, open_graph, settings_of


def written(workers):
    return sum("ack" in event for worker in workers for event in worker.events)


def wait_for_writes(workers, more):
    goal = written(workers) + more
    while written(workers) < goal:
        assert all(worker.is_alive for worker in workers)
        time.sleep(0.01)


@PLACES
def test_a_clone_shows_the_graph_after_some_commit_of_each_branch(start_workers, place, tmp_path):
    source = open_graph(place)
    source.create_branch("dev")
    workers = start_workers(3)
    for number, (worker, branch) in enumerate(zip(workers, ("main", "dev", "dev"), strict=True)):
        worker.start("pairs", by=f"w{number}", count=None, branch=branch)
    for number in range(3):
        wait_for_writes(workers, 3)
        omnigraph.clone(
            str(place),
            tmp_path / f"clone-{number}",
            shallow=number == 2,
            settings=settings_of(place),
        )
    for worker in workers:
        worker.close()
    for number in range(3):
        clone = open_graph(tmp_path / f"clone-{number}")
        assert clone.recovered_on_open == []
        for branch in ("main", "dev"):
            head = clone.commits(branch)[0].commit_id
            assert head in {commit.commit_id for commit in source.commits(branch)}
            then = source.at(commit=head, branch=branch)
            assert list(clone.export(branch=branch)) == list(then.export())
            check_pairs(clone, branch)
            check_tables(tmp_path / f"clone-{number}", branch)
        assert clone.verify(deep=True).is_sound


def count_entries(folder: Path) -> int:
    """Count the files and folders below a folder; those removed concurrently do not count."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))


@PLACES
def test_a_clone_that_was_killed_is_no_graph_and_can_be_started_over(place, tmp_path):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance, source = random.Random(seed), open_graph(place)
    source.create_branch("dev")
    for number in range(5):
        query = "query q($s: String) { insert Item { slug: $s } }"
        source.mutate(query, params={"s": f"i{number}"}, branch="dev")
    there = tmp_path / "clone"
    settings = settings_of(place)
    for _ in range(4):
        force = ["--force"] if there.exists() else []
        process = subprocess.Popen(
            [sys.executable, "-m", "omnigraph", "clone", str(place), str(there), *force],
            env=environment_of(place),
            stdout=subprocess.DEVNULL,
        )
        enough = chance.randrange(1, 30)
        with process:
            while process.poll() is None and count_entries(there) < enough:
                time.sleep(0.0005)
            process.send_signal(signal.SIGKILL)
        try:
            clone = omnigraph.open(there, read_only=True)
        except (CloneUnfinished, GraphNotFound):
            continue
        assert clone.verify(deep=True).is_sound, "it was finished before it was killed"
        break
    else:
        omnigraph.clone(str(place), there, force=True, settings=settings)
    clone = omnigraph.open(there)
    for branch in ("main", "dev"):
        assert list(clone.export(branch=branch)) == list(source.export(branch=branch))
        assert clone.commits(branch) == source.commits(branch)
    assert clone.verify(deep=True).is_sound
