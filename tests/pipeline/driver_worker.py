"""Loads a file and is killed at a given moment of the commit.

python driver_worker.py GRAPH FILE MODE ENGINE MOMENT
"""

from __future__ import annotations

import os
import signal
import sys
from fnmatch import fnmatch

import omnigraph
from omnigraph.storage.objects.object_store import install_observer

MOMENTS = {
    "before the fence": ("before", "put*", "__recovery/*", 1),
    "before the first table": ("before", "commit", "*/[ne][od][dg]es/*", 1),
    "between two tables": ("after", "commit", "*/[ne][od][dg]es/*", 1),
    "after the last table": ("after", "commit", "*/[ne][od][dg]es/*", 2),
    "after the publish": ("after", "commit", "*/__manifest*", 1),
}


class Killer:
    """Kills this process at the nth write that matches."""

    def __init__(self, moment: str, action: str, path: str, nth: int) -> None:
        self.moment, self.action, self.path, self.left = moment, action, path, nth

    def before(self, action: str, path: str) -> None:
        self._meet("before", action, path)

    def after(self, action: str, path: str) -> None:
        self._meet("after", action, path)

    def _meet(self, moment: str, action: str, path: str) -> None:
        if moment == self.moment and fnmatch(action, self.action) and fnmatch(path, self.path):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    place, file, mode, engine, moment = sys.argv[1:]
    install_observer(Killer(*MOMENTS[moment]))
    graph = omnigraph.open(place, settings=omnigraph.Settings.from_environment(os.environ))
    conf = {"spark.master": "local[2]"}
    graph.load([file], mode, engine=engine, spark_conf=conf)


if __name__ == "__main__":
    main()
