"""Every path below the storage root of a cluster, in one place.

    __cluster/state.json                                  the ledger
    __cluster/lock.json                                   who is changing the cluster
    __cluster/resources/query/<graph>/<name>/<digest>.gq  applied queries
    __cluster/resources/policy/<name>/<digest>.yaml       applied policies
    __cluster/recoveries/<id>.json                        what an unfinished change set out to do
    __cluster/approvals/<id>.json                         who allowed what
    graphs/<id>.omni                                      the graphs

What is below `__cluster` is kept apart from the rest, so that a lock on it is a file of it and
not of the folder that people keep in git.
"""

from __future__ import annotations

from omnigraph.wire.graph_ids import check_graph_id

CONFIG_FILE = "cluster.yaml"
CONTROL_FOLDER = "__cluster"
GRAPHS_FOLDER = "graphs"
GRAPH_SUFFIX = ".omni"

STATE_FILE = "state.json"
LOCK_FILE = "lock.json"
RECOVERIES = "recoveries"
APPROVALS = "approvals"
_JSON = ".json"


def make_graph_path(graph_id: str) -> str:
    """Where a graph lives below the root; the id is checked, for what is there may be deleted.

    >>> make_graph_path("library")
    'graphs/library.omni'
    """
    return f"{GRAPHS_FOLDER}/{check_graph_id(graph_id)}{GRAPH_SUFFIX}"


def make_sidecar_path(operation_id: str) -> str:
    return f"{RECOVERIES}/{operation_id}{_JSON}"


def make_approval_path(approval_id: str) -> str:
    return f"{APPROVALS}/{approval_id}{_JSON}"


def make_payload_path(address: str, digest: str) -> str:
    """Where the text of a query or policy is kept.

    >>> make_payload_path("query.library.overdue", "ab12")
    'resources/query/library/overdue/ab12.gq'
    """
    kind, _, rest = address.partition(".")
    suffix = {"query": ".gq", "policy": ".yaml"}[kind]
    return f"resources/{kind}/{rest.replace('.', '/')}/{digest}{suffix}"


def show_control_path(path: str) -> str:
    """The same path as messages name it.

    >>> show_control_path(STATE_FILE)
    '__cluster/state.json'
    """
    return f"{CONTROL_FOLDER}/{path}"
