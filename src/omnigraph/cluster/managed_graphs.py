"""Whether a graph that is named by its address belongs to a cluster."""

from __future__ import annotations

import re

from omnigraph.cluster.cluster_layout import (
    CONTROL_FOLDER,
    GRAPH_SUFFIX,
    GRAPHS_FOLDER,
    STATE_FILE,
)
from omnigraph.settings import Settings
from omnigraph.storage.control_files import normalize_root, open_control_files

_MANAGED = re.compile(f"(?P<root>.+)/{GRAPHS_FOLDER}/[^/]+{re.escape(GRAPH_SUFFIX)}")


def find_managing_root(uri: str, settings: Settings | None = None) -> str | None:
    """The storage root of the cluster that a graph of this address is in, if it is in one.

    Raises:
        BadRequest: the address is not one of a folder or of a bucket.
        StorageError: it cannot be told.
    """
    match = _MANAGED.fullmatch(normalize_root(uri))
    if match is None:
        return None
    control = open_control_files(f"{match['root']}/{CONTROL_FOLDER}", settings)
    return match["root"] if control.exists(STATE_FILE) else None
