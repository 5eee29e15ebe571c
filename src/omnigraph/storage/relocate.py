"""Making a graph that was moved or copied whole at its new address.

Versions of branches record the address of the files they share (`tables.bases`). Readers see
through an outdated one, so a graph may be read wherever it is. Whatever removes files must not
meet one: it would take shared files for files that no branch needs. So the first writer at a new
address writes it into every version of every branch, under the fence, and notes last that it did.
It may die on the way: each file is replaced in one step and the next writer goes over all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.layout import ADDRESS, MANIFEST
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.base_paths import relocate_version
from omnigraph.storage.tables.damage import rewritten_version
from omnigraph.storage.tables.location import is_flat_name

_FORMAT = 1


def is_at_home(root: GraphRoot) -> bool:
    """Whether the branches of the graph were last written under the address it has now."""
    return root.store.find(ADDRESS) == encode_address_note(root.store.uri)


def settle_in(root: GraphRoot) -> None:
    """What the first writer at an address does."""
    if is_at_home(root):
        return
    with root.hold() as hold:
        if not is_at_home(root):  # another one may have been first
            relocate(root, hold)


def relocate(root: GraphRoot, hold: Hold) -> None:
    """Write the address of the graph into every version that has another.

    Raises:
        ManifestCorrupt: a version is not laid out as expected, or refers to files elsewhere.
    """
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        for _ in pool.map(lambda one: _relocate(root, hold, *one), _list_branches(root)):
            continue
    note = encode_address_note(root.store.uri)
    if root.store.find(ADDRESS) != note:
        hold.check()
        root.store.put(ADDRESS, note)


def encode_address_note(uri: str) -> bytes:
    """What is noted once every branch knows that the graph is at this address."""
    return json.dumps({"version": _FORMAT, "uri": uri}).encode()


def _list_branches(root: GraphRoot) -> Iterator[tuple[str, str]]:
    """Every branch of every table that has a folder: its table and its name."""
    for path in (MANIFEST, *root.table_paths()):
        for name in root.store.list_prefixes(f"{path}/tree"):
            if is_flat_name(name):
                yield path, name


def _relocate(root: GraphRoot, hold: Hold, path: str, branch: str) -> None:
    for version in list_version_files(root.store, f"{path}/tree/{branch}"):
        found = root.store.find_versioned(version)
        if found is None:
            continue  # removed since it was listed
        try:
            moved = relocate_version(found.data, root.store.uri_of(path))
        except ManifestCorrupt as error:
            raise ManifestCorrupt(f"{version}: {error.message}") from error
        if moved != found.data:
            hold.check()
            with rewritten_version(root.location(path, branch), version.rpartition("/")[2]):
                # Where the fence is a lease, others may have removed it by now, or done the same.
                root.store.put_if_match(version, moved, found.tag)


def list_version_files(store: ObjectStore, folder: str) -> list[str]:
    """The files of the versions in the folder of a table or of a branch."""
    names = store.list(f"{folder}/_versions")
    return [f"{folder}/_versions/{name}" for name in names if name.endswith(".manifest")]
