"""Writes to a graph while the machine runs out of something.

cramped.py FOLDER WHAT OPERATION, where WHAT is

    files       room for new files on the file system at FOLDER, which must be a tmpfs of its own
    handles     files this process may have open
    bytes       bytes a file may have
    everything  the right to write to the file system at FOLDER, a tmpfs of its own as well

The operation is done with nothing left, with a little left, and so on until it succeeds. Prints
one line of JSON for each time: how it ended, and what the graph was afterwards.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

import omnigraph
from crash.crash_checks import check, content_of
from crash.crash_scenario import OPERATIONS, create
from crash.kill_sequences import fresh
from omnigraph.errors import OmniError

ROOMY = "rw,size=256m,nr_inodes=100000"
BYTES_A_STEP = 400


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


@contextmanager
def few_files(folder: Path, left: int):
    found = os.statvfs(folder)
    remount(folder, f"nr_inodes={found.f_files - found.f_ffree + left}")
    yield
    remount(folder, ROOMY)


@contextmanager
def few_handles(folder: Path, left: int):
    in_use = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    lowest_free = next(number for number in range(len(in_use) + 1) if number not in in_use)
    with _limited(resource.RLIMIT_NOFILE, lowest_free + left):
        yield


@contextmanager
def few_bytes(folder: Path, left: int):
    with _limited(resource.RLIMIT_FSIZE, left * BYTES_A_STEP):
        yield


@contextmanager
def _limited(what: int, limit: int):
    soft, hard = resource.getrlimit(what)
    resource.setrlimit(what, (limit, hard))
    yield
    resource.setrlimit(what, (soft, hard))


@contextmanager
def no_writing(folder: Path, left: int):
    if left:  # either it can be written or not
        yield
        return
    remount(folder, "ro")
    yield
    remount(folder, ROOMY)


SHORTAGES = {
    "files": few_files,
    "handles": few_handles,
    "bytes": few_bytes,
    "everything": no_writing,
}


def outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except OmniError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


def squeeze(folder: Path, what: str, operation: str) -> None:
    create(folder / "template")
    finished = fresh(folder / "template", folder / "finished", operation)
    old = content_of(omnigraph.open(finished))
    OPERATIONS[operation].run(omnigraph.open(finished, actor="cramped"))
    allowed = {"old": old, "new": content_of(omnigraph.open(finished))}
    left, ended = 0, ""
    while ended != "done":
        place = fresh(folder / "template", folder / f"town-{left}", operation)
        graph = omnigraph.open(place, actor="cramped")
        with SHORTAGES[what](folder, left):
            ended = outcome(lambda graph=graph: OPERATIONS[operation].run(graph))
            opened = outcome(lambda place=place: omnigraph.open(place))
            if what != "handles":  # a reader needs some, too
                assert content_of(graph) in allowed.values()
                assert content_of(omnigraph.open(place, read_only=True)) in allowed.values()
        found = check(place, allowed)
        shutil.rmtree(place)
        print(json.dumps({"ended": ended, "opened": opened, "found": found}), flush=True)
        left += 1


if __name__ == "__main__":
    squeeze(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
