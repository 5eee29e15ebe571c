"""Copying what a plan names, so that a clone is there whole or not at all.

A claim comes first. As long as it is held nothing opens the place as a graph, and a clone that
was interrupted is started over. Files come before versions that refer to them, and versions
before names. The source is only read. Cleanup may remove there what is being copied; then another
plan is made, of what the graph has become, and files that are here already are not copied again.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from omnigraph.errors import (
    AlreadyInitialized,
    BadRequest,
    ConflictError,
    HistoricalVersionReclaimed,
    OmniError,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import BranchName, EntityKind
from omnigraph.progress import Work, working
from omnigraph.storage.clone.copied_checksums import CopiedChecksums
from omnigraph.storage.clone.cut import take_cut
from omnigraph.storage.clone.plan import Place, Plan, make_plan
from omnigraph.storage.clone_claim import (
    encode_claim,
    find_claim,
    holds_claim,
    release_claim,
    require_finished,
    take_claim,
)
from omnigraph.storage.consumers import CONSUMER_RECORDS
from omnigraph.storage.initialize import list_mirror_files, write_control_files
from omnigraph.storage.layout import (
    ADDRESS,
    BRANCHES,
    INIT_CLAIM,
    MANIFEST,
    SCHEMA_FILES,
    SIGHTINGS,
    make_consumer_path,
    make_ref_path,
    make_tables_folder,
    tag_ref,
)
from omnigraph.storage.lost_branches import note_named
from omnigraph.storage.objects.conditional_put_probe import require_create_if_absent
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.record_log import create_logged
from omnigraph.storage.refs import REF_RECORDS
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables import probes
from omnigraph.storage.tables.base_paths import relocate_version
from omnigraph.storage.tables.remove_versions import list_table_tags
from omnigraph.storage.tables.table import find_latest_version
from omnigraph.storage.tags import TAG_RECORDS

_PLANS = 5
_FOLDERS = (MANIFEST, *(make_tables_folder(kind) for kind in EntityKind), BRANCHES)


@dataclass(frozen=True, slots=True)
class CloneResult:
    """What was copied."""

    uri: str
    source: str
    branches: tuple[BranchName, ...]
    tables: int
    versions: int
    """How many versions of the graph can be read there, on all branches together."""
    files: int
    bytes: int

    def wire(self) -> dict[str, object]:
        return {
            "uri": self.uri,
            "source": self.source,
            "branches": list(self.branches),
            "tables": self.tables,
            "versions": self.versions,
            "files": self.files,
            "bytes": self.bytes,
        }


def clone(
    source: GraphRoot,
    target: GraphRoot,
    branches: Collection[BranchName] = (),
    *,
    shallow: bool = False,
    force: bool = False,
) -> CloneResult:
    """Copy a graph; branches, if any are named, are those to copy besides `main`.

    Raises:
        AlreadyInitialized: there is a graph at the target.
        CloneUnfinished: there is a part of a clone; `force` starts it over.
        BranchNotFound: there is no such branch.
    """
    _require_apart(source.store, target.store)
    require_create_if_absent(target.store, target.ids)
    copying = _Copying(source, target, target.ids.next())
    copying.claim(force=force)
    return copying.run(branches, shallow=shallow)


def _require_apart(source: ObjectStore, target: ObjectStore) -> None:
    one, other = f"{source.identity}/", f"{target.identity}/"
    if one.startswith(other) or other.startswith(one):
        raise BadRequest(f"a clone of {source.uri} cannot be at {target.uri}: one is in the other")


def _refuse_used(store: ObjectStore) -> None:
    for path in (MANIFEST, INIT_CLAIM, *SCHEMA_FILES):
        if store.exists(path):
            raise AlreadyInitialized(store.uri, path)


class _Copying:
    def __init__(self, source: GraphRoot, target: GraphRoot, attempt: str) -> None:
        self._source, self._target = source, target
        self._claim = encode_claim(attempt, source.uri)
        self._released = encode_claim(attempt, source.uri, is_released=True)
        self._here: dict[str, int] = {}
        """The files that were copied, and how long they are."""
        self._checksums = CopiedChecksums(source, target)

    def claim(self, *, force: bool) -> None:
        store = self._target.store
        before = find_claim(store)
        if force and before is not None and not before.is_released:
            if not take_claim(store, self._claim, before):
                raise self._make_overtaken()
            for path in _FOLDERS:
                store.delete_prefix(path)
            for path in (*SCHEMA_FILES, ADDRESS, SIGHTINGS):
                store.delete(path)
            return
        require_finished(store)
        _refuse_used(store)
        if not take_claim(store, self._claim, before):
            require_finished(store)
            raise AlreadyInitialized(store.uri, MANIFEST)
        try:
            _refuse_used(store)  # somebody may have finished before we had the claim
        except AlreadyInitialized:
            release_claim(store, self._claim, self._released)
            raise

    def _make_overtaken(self) -> ConflictError:
        uri = self._target.store.uri
        return ConflictError(f"another clone to {uri} was started or finished meanwhile")

    def _require_claim(self) -> None:
        """Raise if another clone has started over: what is here is no longer ours."""
        if not holds_claim(self._target.store, self._claim):
            raise self._make_overtaken()

    def run(self, branches: Collection[BranchName], *, shallow: bool) -> CloneResult:
        with (
            working("copying", unit="files") as work,
            ThreadPoolExecutor(self._target.settings.maintenance_concurrency) as pool,
        ):
            plan = self._copy_all(branches, work, pool, shallow=shallow)
        self._finish(plan)
        tables, versions = plan.count()
        return CloneResult(
            uri=self._target.uri,
            source=self._source.uri,
            branches=tuple(ref.name for ref in plan.cut.refs),
            tables=tables,
            versions=versions,
            files=len(self._here),
            bytes=sum(self._here.values()),
        )

    def _copy_all(
        self,
        branches: Collection[BranchName],
        work: Work,
        pool: ThreadPoolExecutor,
        *,
        shallow: bool,
    ) -> Plan:
        """Copy all that the graph consists of, as it is at some moment from now on."""
        for attempt in range(_PLANS):
            try:
                cut = take_cut(self._source)
                plan = make_plan(
                    self._source, cut.only(branches) if branches else cut, shallow=shallow
                )
                self._copy_files(plan, work, pool)
                self._require_claim()
                self._copy_versions(plan, pool)
                self._copy_branches(plan)
                self._copy_tags(plan)
            except (HistoricalVersionReclaimed, StorageFailure) as failure:
                if attempt + 1 == _PLANS or not _may_be_cleaned_away(failure):
                    raise
            else:
                return plan
        raise AssertionError("the last plan is carried out or raises")

    def _copy_files(self, plan: Plan, work: Work, pool: ThreadPoolExecutor) -> None:
        missing = sorted(plan.files - self._here.keys())
        work.total = len(self._here) + len(missing)
        for path, size in pool.map(self._copy_file, missing):
            self._here[path] = size
            work.advance()

    def _copy_file(self, path: str) -> tuple[str, int]:
        size = crc = 0

        def count_chunks() -> Iterable[bytes]:
            nonlocal size, crc
            for chunk in self._source.store.chunks(path):
                size, crc = size + len(chunk), zlib.crc32(chunk, crc)
                yield chunk
            self._checksums.take(path, size, crc)

        self._target.store.put_chunks(path, count_chunks())
        return path, size

    def _copy_versions(self, plan: Plan, pool: ThreadPoolExecutor) -> None:
        wanted = [(place, version) for place, all_ in plan.versions.items() for version in all_]
        for _ in pool.map(lambda one: self._copy_version(*one), wanted):
            continue

    def _copy_version(self, place: Place, version: int) -> None:
        table, branch = place
        folder = table if branch is None else f"{table}/tree/{branch}"
        path = f"{folder}/{probes.name_version_file(version)}"
        data = self._source.store.get(path)
        home = self._target.store.uri_of(table)
        self._target.store.put(path, relocate_version(data, home))

    def _copy_branches(self, plan: Plan) -> None:
        """The physical branches; they exist from here on."""
        for table, branch in plan.versions:
            if branch is not None:
                self._copy_object(f"{table}/{probes.name_branch_file(branch)}")

    def _copy_tags(self, plan: Plan) -> None:
        """The tags somebody put on versions of the manifest that are copied."""
        for name, branch, version in list_table_tags(self._source.manifest()):
            if version in plan.versions.get((MANIFEST, branch), ()):
                self._copy_object(f"{MANIFEST}/{probes.tag_file(name)}")

    def _copy_object(self, path: str) -> None:
        self._target.store.put(path, self._source.store.get(path))

    def _finish(self, plan: Plan) -> None:
        """Write what names the copied versions, look at them, and give up the claim."""
        target, store = self._target, self._target.store
        self._require_claim()
        self._checksums.note(plan.versions)
        for ref in plan.cut.refs:
            if ref.incarnation is not None:
                # The marks of what is related stay where they are, so all records are asked here.
                record = replace(ref, leaves_marks=False)
                store.put(make_ref_path(ref.name), REF_RECORDS.encode(record))
                note_named(target, ref.incarnation)
            newest = find_latest_version(target.manifest(ref.incarnation))
            if newest != plan.cut.versions[ref.incarnation]:
                raise ConflictError(
                    f"'{ref.name}' at {store.uri} is at manifest version {newest}, and not at "
                    f"{plan.cut.versions[ref.incarnation]}: something else writes there"
                )
        for tag in plan.tags:
            create_logged(store, tag_ref(tag.name), TAG_RECORDS.encode(tag))
        for consumer in plan.consumers:
            position = CONSUMER_RECORDS.encode(consumer, nonce=target.ids.next())
            create_logged(store, make_consumer_path(consumer.name), position)
        for path, text in list_mirror_files(plan.contract):
            store.put(path, text.encode())
        write_control_files(target)
        if not release_claim(store, self._claim, self._released):
            raise self._make_overtaken()


def _may_be_cleaned_away(failure: OmniError) -> bool:
    """Whether something was missing, and not because the store cannot be reached."""
    if isinstance(failure, StorageFailure):
        return failure.kind in (StorageKind.NOT_FOUND, StorageKind.PERMANENT)
    return True
