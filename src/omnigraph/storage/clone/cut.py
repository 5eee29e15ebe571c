"""Which version of each branch a clone shows.

A version of the manifest is whole by itself. Several branches make sense together if none of them
knows a commit of another that is not copied, as after a merge. So they are looked at until two
looks in a row see the same; a graph that never rests is asked to, for the moment of one look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.errors import BranchNotFound, StorageFailure
from omnigraph.identity import MAIN, BranchName
from omnigraph.storage.refs import BranchRef, list_refs
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.table import find_latest_version

_LOOKS = 20


@dataclass(frozen=True, slots=True)
class Cut:
    """The branches of a graph at one moment, and the newest manifest version of each."""

    refs: tuple[BranchRef, ...]
    versions: Mapping[str | None, int]

    def only(self, names: Collection[BranchName]) -> Cut:
        """These branches, with `main` and all branches they were made from.

        Raises:
            BranchNotFound: there is no such branch.
        """
        by_name = {ref.name: ref for ref in self.refs}
        kept = {MAIN}
        for name in names:
            at: BranchName | None = name
            while at is not None and at not in kept:
                if at not in by_name:
                    raise BranchNotFound(at)
                kept.add(at)
                at = by_name[at].parent
        refs = tuple(ref for ref in self.refs if ref.name in kept)
        return Cut(refs, {ref.incarnation: self.versions[ref.incarnation] for ref in refs})


def take_cut(root: GraphRoot) -> Cut:
    """The graph as it is now; nothing is written unless it never rests."""
    seen: Cut | None = None
    for _ in range(_LOOKS):
        try:
            now = _look(root)
        except StorageFailure:
            continue  # a branch was deleted while we looked
        if now == seen or len(now.refs) == 1:
            return now
        seen = now
    with root.hold():
        return _look(root)


def _look(root: GraphRoot) -> Cut:
    refs = tuple(list_refs(root.store))
    with ThreadPoolExecutor(root.settings.maintenance_concurrency) as pool:
        versions = pool.map(lambda ref: find_latest_version(root.manifest(ref.incarnation)), refs)
        return Cut(refs, dict(zip((ref.incarnation for ref in refs), versions, strict=True)))
