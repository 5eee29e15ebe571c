"""Writes below a root where something is in the way, and prints what came of it as JSON.

fault_worker.py ROOT [--file-limit BYTES] [--as-nobody]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from pathlib import Path

from omnigraph.errors import StorageFailure
from omnigraph.storage.objects.local_store import LocalObjectStore

BIG = b"x" * 1_000_000


def outcome(call):
    try:
        return {"value": call() is not None}
    except StorageFailure as failure:
        return {"kind": failure.kind, "message": failure.message}


def outcome_size(store):
    """Return the size of the object afterwards: the old one has three bytes."""
    try:
        return len(store.get("state"))
    except StorageFailure:
        return None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("root", type=Path)
    arguments.add_argument("--file-limit", type=int)
    arguments.add_argument("--as-nobody", action="store_true")
    options = arguments.parse_args()
    if options.file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (options.file_limit, options.file_limit))
    if options.as_nobody and os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    store = LocalObjectStore(options.root)
    outcomes = {
        "find": outcome(lambda: store.find("state")),
        "exists": outcome(lambda: store.exists("state")),
        "list": outcome(lambda: store.list("")),
        "put": outcome(lambda: store.put("state", BIG)),
        "put_if_absent": outcome(lambda: store.put_if_absent("new", BIG)),
        "put_if_match": outcome(
            lambda: store.put_if_match("state", BIG, store.get_versioned("state").tag)
        ),
        "size": outcome_size(store),
        "delete": outcome(lambda: store.delete("state")),
    }
    print(json.dumps(outcomes))
    if os.access(options.root, os.R_OK):
        print(json.dumps(sorted(path.name for path in options.root.iterdir())))


if __name__ == "__main__":
    main()
