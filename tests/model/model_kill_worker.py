"""A process that carries out one operation and ends itself after some durable writes.

It reads one JSON object: the graph, the operation, the branch and how many durable writes to
survive. It prints `ready` when it accepts orders, and `survived` if the write was not reached.
"""

from __future__ import annotations

import json
import sys

import omnigraph
from crash.kill_points import KillAfter
from model.oracle_driver import Refusal, carry_out
from omnigraph.storage.objects.object_store import install_observer


class Armed:
    """Passes durable writes on to the switch, once there is one."""

    def __init__(self):
        self.switch = None

    def before(self, action, path):
        if self.switch is not None:
            self.switch.before(action, path)

    def after(self, action, path):
        if self.switch is not None:
            self.switch.after(action, path)


def main():
    armed = Armed()
    install_observer(armed)
    print("ready", flush=True)
    order = json.loads(sys.stdin.readline())
    graph = omnigraph.open(order["place"])
    armed.switch = KillAfter(order["writes"])
    try:
        carry_out(graph, order["operation"], order["branch"])
    except Refusal as refusal:
        print(refusal.kind, flush=True)
    print("survived", flush=True)


if __name__ == "__main__":
    main()
