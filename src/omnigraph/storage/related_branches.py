"""Whether a branch stands alone: none was created from it, and it never had another name.

Whoever deletes a branch must know that. All records together tell, ours and those of the substrate,
but reading them takes the longer the more branches there are. So a mark is left before the first
record is made that has to do with another branch, and stays as long as that branch lives. One that
was made by somebody who leaves marks, and has none, stands alone. Of any other branch, all records
are asked.

A mark may get lost, and then nothing must be deleted for want of it: the record of the branch says
as well, from then on, that all records are to be asked.
"""

from __future__ import annotations

import json

from omnigraph.storage.layout import MANIFEST, RELATED, make_relation_mark_path
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.record_log import create_logged, remove_logged
from omnigraph.storage.refs import BranchRef, forget_standing_alone
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.probes import tag_file

_JSON = ".json"
_TABLE_TAGS = f"{MANIFEST}/{tag_file('x').rpartition('/')[0]}"


def mark_related(store: ObjectStore, ref: BranchRef) -> None:
    """Leave the mark of a branch, before one is created from it and before it is renamed."""
    if ref.incarnation is not None:
        create_logged(
            store, make_relation_mark_path(ref.incarnation), _encode_mark(ref.incarnation)
        )
        if ref.leaves_marks:
            forget_standing_alone(store, ref)


def unmark_related(store: ObjectStore, incarnation: str) -> None:
    """Remove the mark of a branch of which nothing is left."""
    remove_logged(store, make_relation_mark_path(incarnation))


def list_related(store: ObjectStore) -> list[str]:
    """The branches with a mark."""
    return [name.removesuffix(_JSON) for name in store.list(RELATED) if name.endswith(_JSON)]


def find_damaged_marks(store: ObjectStore) -> list[str]:
    """The marks that are not what was written; each counts as long as it is there."""
    paths = {one: make_relation_mark_path(one) for one in list_related(store)}
    found = ((path, store.find(path), _encode_mark(one)) for one, path in paths.items())
    return [path for path, data, written in found if data not in (None, written)]


def _encode_mark(incarnation: str) -> bytes:
    return json.dumps({"version": 1, "incarnation": incarnation}).encode()


def stands_alone(root: GraphRoot, ref: BranchRef) -> bool:
    """Whether no other record can have to do with a branch; False says nothing.

    Neither may anybody have put a tag of the substrate's on a version of the manifest.
    """
    return (
        ref.leaves_marks
        and ref.incarnation is not None
        and ref.renamed_from is None
        and not root.store.exists(make_relation_mark_path(ref.incarnation))
        and not root.store.list(_TABLE_TAGS)
    )
