"""A server that refuses a single request, or all from one on, be it for reading or for writing.

Writes that fail are met everywhere else; here it may also be what a writer looks at.
"""

from __future__ import annotations

import random

import pytest

from crash.crash_checks import check, content_of
from crash.crash_scenario import OPERATIONS
from crash.kill_sequences import fresh
from omnigraph.errors import OmniError, OutcomeUnknown, RecoveryRequired
from store_places import Bucket, open_graph

pytestmark = pytest.mark.object_store

ONE, ALL = 1, 10**6
SAMPLE = 4
SOME = ("insert_node_and_edge", "delete_with_cascade", "first_write_on_a_branch", "create_branch")


class Refused:
    """One operation, and every request of it that can be refused."""

    def __init__(self, template, operation):
        self._template, self._operation = template, operation
        self._server = template.server
        self._folder = Bucket.on(self._server)
        finished = fresh(template, self._folder / "finished", operation)
        graph = open_graph(finished, actor="worker")
        old = content_of(graph)
        self._server.refuse(0)
        OPERATIONS[operation].run(graph)
        self.requests = self._server.refuse(0)
        self._allowed = {"old": old, "new": content_of(open_graph(finished))}

    def cells(self):
        return [(nth, count) for nth in range(1, self.requests + 1) for count in (ONE, ALL)]

    def meet(self, cell):
        """After a reported failure the graph is the old one, unless the outcome is unknown."""
        nth, count = cell
        place = fresh(self._template, self._folder / f"{nth}-{count}", self._operation)
        graph = open_graph(place, actor="worker")
        content_of(graph)
        error = None
        self._server.refuse(nth, count)
        try:
            OPERATIONS[self._operation].run(graph)
        except OmniError as raised:
            error = raised
        finally:
            self._server.refuse(0)
        found = check(place, self._allowed)
        if not isinstance(error, RecoveryRequired | OutcomeUnknown):
            assert found == ("old" if error else "new"), (cell, error)


@pytest.mark.parametrize("operation", SOME)
def test_a_write_of_which_a_request_is_refused_says_so_and_leaves_nothing(
    bucket_template, explored, operation
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    refused = Refused(bucket_template, operation)
    for cell in random.Random(seed).sample(refused.cells(), SAMPLE):
        refused.meet(cell)
    explored.add("request", SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("operation", SOME)
def test_every_request_of_a_write_being_refused(bucket_template, explored, operation):
    refused = Refused(bucket_template, operation)
    for cell in refused.cells():
        refused.meet(cell)
    explored.add("request", len(refused.cells()))
