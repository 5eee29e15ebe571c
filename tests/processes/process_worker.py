"""A process that runs operations on a graph from standard input, a JSON object a line.

It answers with events, a JSON object a line: `ready` once, whatever the command reports while it
runs, and `done` when the command is over. An acknowledged write is reported right away, so that a
killed worker's last words are its last acknowledged results.

The first command opens a graph. Every command may have `stop_at`, to stop this process at a
durable write: a moment (before or after), an action and a path, the last two as patterns.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from fnmatch import fnmatch

import omnigraph
from omnigraph.errors import OmniError
from omnigraph.settings import Settings
from omnigraph.storage.lease_fence import LeaseFence, LeaseTerms
from omnigraph.storage.objects.object_store import StoreKind, install_observer


class StopAt:
    """An observer that stops this process at the given durable write, once."""

    def __init__(self):
        self.place = None

    def before(self, action, path):
        self._meet("before", action, path)

    def after(self, action, path):
        self._meet("after", action, path)

    def _meet(self, moment, action, path):
        if self.place is None or moment != self.place[0]:
            return
        if fnmatch(action, self.place[1]) and fnmatch(path, self.place[2]):
            self.place = None
            say(stopping=action, path=path)
            os.kill(os.getpid(), signal.SIGSTOP)


def say(**event):
    print(json.dumps(event), flush=True)


def attempt(write, **facts):
    """Report what a write gave: its commit, or the kind of its error."""
    try:
        result = write()
    except OmniError as error:
        say(error=type(error).__name__, message=str(error)[:300], **facts)
        return None
    commit = getattr(result, "commit", None)
    say(ack=commit.commit_id if commit else None, **facts)
    return result


def pair(graph, key, by, branch="main"):
    """Two tables in one commit: an item and the edge that belongs to it."""
    query = """query pair($k: String, $by: String) {
        insert Item {slug: $k, by: $by}
        insert Has {from: $k, to: "all", by: $by}
    }"""
    return graph.mutate(query, params={"k": key, "by": by}, branch=branch)


def pairs(graph, by, count, branch="main"):
    number = 0
    while count is None or number < count:
        key = f"{by}-{number}"
        attempt(lambda key=key: pair(graph, key, by, branch), key=key)
        number += 1


def append(graph, by, keys):
    for key in keys:
        record = {"type": "Item", "data": {"slug": key, "by": by}}
        attempt(lambda record=record: graph.load([record], "append"), key=key)


def merge(graph, by, key, count):
    for number in range(count):
        value = f"{by}-{number}"
        record = {"type": "Item", "data": {"slug": key, "by": value}}
        attempt(lambda record=record: graph.load([record], "merge"), value=value)


def update(graph, by, key, count):
    query = "query u($k: String, $by: String) { update Item set {by: $by} where slug = $k }"
    for number in range(count):
        params = {"k": key, "by": f"{by}-{number}"}
        attempt(lambda params=params: graph.mutate(query, params=params), value=params["by"])


def count_up(graph, key, count):
    """Read, add one, write on the head that was read; until `count` writes were acknowledged."""
    query = "query u($k: String, $n: I64) { update Item set {n: $n} where slug = $k }"
    done = 0
    while done < count:
        view = graph.at()
        (now,) = [r["data"]["n"] for r in view.export(["Item"]) if r["data"]["id"] == key]
        given = {"params": {"k": key, "n": now + 1}, "expected_head": view.commit_id}
        if attempt(lambda given=given: graph.mutate(query, **given), n=now + 1) is not None:
            done += 1


def generations(graph, by, count):
    """Replace two types as a whole with rows that carry one mark."""
    for number in range(count):
        mark = f"{by}-{number}"
        records = [{"type": "Left", "data": {"slug": f"l{n}", "mark": mark}} for n in range(3)]
        records += [{"type": "Right", "data": {"slug": f"r{n}", "mark": mark}} for n in range(2)]
        attempt(lambda records=records: graph.load(records, "overwrite"), mark=mark)


def branches(graph, by, count):
    """Create a branch, write on it, delete it; names are shared with other workers."""
    for number in range(count):
        name = f"shared-{number % 2}"
        attempt(lambda name=name: graph.create_branch(name), created=name)
        key = f"{by}-b{number}"
        attempt(lambda key=key, name=name: pair(graph, key, by, name), key=key, branch=name)
        if number % 3:
            attempt(lambda name=name: graph.delete_branch(name), deleted=name)


def merges(graph, by, count):
    """Write on a branch of one's own and bring it into main, which may have moved on."""
    branch = f"of-{by}"
    attempt(lambda: graph.create_branch(branch), created=branch)
    for number in range(count):
        key = f"{by}-{number}"
        attempt(lambda key=key: pair(graph, key, by, branch), key=key, branch=branch)
        attempt(lambda: graph.merge(branch), merged=number)
        if number % 2:
            attempt(lambda: graph.merge("main", branch), refreshed=branch, branch=branch)


def reverts(graph, by, count):
    """Write a pair and undo it, while others write."""
    for number in range(count):
        key = f"{by}-{number}"
        done = attempt(lambda key=key: pair(graph, key, by), key=key)
        if done is not None:
            undone = done.commit.commit_id
            attempt(lambda undone=undone: graph.revert(undone), reverted=key)


def cleans(graph, count):
    for _ in range(count):
        attempt(lambda: graph.cleanup(keep=20, confirm=True), cleaned=True)


def read(graph, count):
    """Look at whole snapshots, of main and of branches, and report any mixture of two commits."""
    seen = set()
    for number in range(count):
        branch = "main" if number % 3 else f"shared-{number % 2}"
        try:
            view = graph.at(branch=branch)
        except OmniError as error:
            if type(error).__name__ != "BranchNotFound":
                say(error=type(error).__name__, message=str(error)[:300])
            continue
        records = list(view.export())
        items = {r["data"]["id"] for r in records if r.get("type") == "Item"}
        edges = {r["from"] for r in records if r.get("edge") == "Has"}
        marks = {r["data"]["mark"] for r in records if r.get("type") in ("Left", "Right")}
        if len(marks) > 1 or not edges <= items or not {i for i in items if "-" in i} <= edges:
            say(mixture=[sorted(marks), sorted(items ^ edges)])
        seen.add(view.commit_id)
    say(seen=len(seen))


COMMANDS = {
    f.__name__: f
    for f in (
        *(pairs, append, merge, update, count_up, generations, branches),
        *(merges, reverts, cleans, read),
    )
} | {
    "pair": lambda graph, key, by, branch="main": attempt(
        lambda: pair(graph, key, by, branch), key=key
    ),
    "mutate": lambda graph, query, branch="main": attempt(
        lambda: graph.mutate(query, branch=branch)
    ),
    "create_branch": lambda graph, name: attempt(lambda: graph.create_branch(name)),
}


def open_graph(place, environment, actor=None, wait_s=60.0, term_s=None):
    """Open a graph; with `term_s` its fence is a lease of that term, whatever the store."""
    settings = Settings.from_environment(os.environ | environment)
    settings = replace(settings, writer_wait_s=wait_s)
    if term_s is not None:
        settings = replace(settings, lease_term_s=term_s)
    graph = omnigraph.open(place, actor=actor, settings=settings)
    root = graph._open.views.root
    if term_s is not None and root.store.kind is StoreKind.LOCAL:
        root.__dict__["fence"] = LeaseFence(root.store, terms=LeaseTerms.lasting(term_s))
    return graph


def main():
    switch, graph = StopAt(), None
    install_observer(switch)
    say(ready=os.getpid())
    for line in sys.stdin:
        command = json.loads(line)
        switch.place = command.pop("stop_at", None)
        match command.pop("do"):
            case "open":
                graph = open_graph(**command)
            case other:
                COMMANDS[other](graph, **command)
        say(done=True)


if __name__ == "__main__":
    main()
