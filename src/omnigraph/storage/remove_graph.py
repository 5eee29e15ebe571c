"""Removing a graph as a whole, with everything below its root and nothing beside it."""

from __future__ import annotations

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import EntityKind
from omnigraph.settings import Settings
from omnigraph.storage.control_files import ControlFiles
from omnigraph.storage.initialize import is_initialized
from omnigraph.storage.layout import (
    INIT_CLAIM,
    MANIFEST,
    SCHEMA_FILES,
    make_tables_folder,
    probe_path,
)
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.write_notes import list_notes, remove_dead_note

_MOST_ROUNDS = 5
"""So often files that a writer adds meanwhile are removed as well."""


_OF_CREATION = frozenset(
    {INIT_CLAIM, MANIFEST, *SCHEMA_FILES, *map(make_tables_folder, EntityKind)}
)
"""What an attempt to create a graph writes before there is one."""


def is_unfinished_creation(files: ControlFiles, path: str, settings: Settings) -> bool:
    """Whether there is nothing but what an attempt to create a graph left that never came to one.

    Nobody can have used it; a graph, a clone under way and files of somebody else are not it.
    """
    if is_initialized(GraphRoot.at(files.uri_of(path), settings).store):
        return False
    names = {*files.list(path), *files.list_prefixes(path)}
    return all(name in _OF_CREATION or name.startswith(probe_path("")) for name in names)


def find_work(files: ControlFiles, path: str, settings: Settings) -> str | None:
    """The note of somebody at work on the graph: a load, an export by tasks, maintenance.

    Raises:
        WriterBusy: a writer holds the graph.
    """
    root = GraphRoot.at(files.uri_of(path), settings)
    with root.hold() as hold:
        for note in list_notes(root.store):
            # Whether the author of a note in a bucket is silent would take minutes to find out.
            if not remove_dead_note(root.store, note, hold, is_silent=lambda _: False):
                return note.path
    return None


def remove_graph(files: ControlFiles, path: str) -> None:
    """Remove everything below `path`; links are removed and never followed.

    Raises:
        StorageFailure: something is still there.
    """
    for _ in range(_MOST_ROUNDS):
        files.delete_prefix(path)
        if not files.exists(path):
            return
    raise StorageFailure(
        StorageKind.PRECONDITION,
        f"cannot remove {files.uri_of(path)}: it is a link or a file, or is being written",
    )
