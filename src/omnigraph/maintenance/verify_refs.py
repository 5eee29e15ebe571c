"""Comparing what is known of a branch in one place with what is known of it in others.

A branch of the graph has a record of ours and a ref of the manifest, and its forks have refs of
their tables. Cleanup spares what these say a branch starts at, so a ref that is gone or says
something else would cost the branch its files.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import OmniError
from omnigraph.maintenance.verify_report import Report
from omnigraph.storage.consumers import CONSUMER_RECORDS
from omnigraph.storage.layout import CONSUMERS, MANIFEST, TAGS
from omnigraph.storage.lost_branches import find_lost, find_unnamed
from omnigraph.storage.manifest import Commit, History, ManifestSnapshot, read_newest
from omnigraph.storage.record_log import list_lost_records
from omnigraph.storage.refs import BranchRef, find_ref, list_names
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.checksums import ChecksumLogs
from omnigraph.storage.tables.damage import require_branch_ref
from omnigraph.storage.tables.lance_branches import LanceBranch, list_branches
from omnigraph.storage.tags import TAG_RECORDS

_LOOKS = 3
"""So often is looked again what branches that come and go may explain."""


def verify_refs(root: GraphRoot, report: Report) -> None:
    """Every record of a branch agrees with the ref of the manifest and with its parent.

    Those of tags and consumers can be read: cleanup refuses while one cannot.
    """
    for attempt in range(_LOOKS):
        problems = list(_problems(root))
        if not problems or attempt + 1 == _LOOKS:
            break
    for check, branch, message in problems:
        report.wrong(check, message, branch)
    for id in find_unnamed(root, _readable(root)):
        report.note(
            "unnamed_branch",
            f"no record names branch {id} of the manifest, and nothing was committed to it: "
            "creating it was interrupted, or its record is gone. Restore the record from a "
            "backup if you miss a branch; cleanup removes this one",
        )


def _problems(root: GraphRoot) -> list[tuple[str, str | None, str]]:
    found: list[tuple[str, str | None, str]] = []
    refs = _readable(root)
    newest = {ref.incarnation: one for ref in refs if (one := _newest(root, ref)) is not None}
    for path in (MANIFEST, *root.table_paths()):
        try:
            physical = list_branches(root.location(path))
        except OmniError as error:
            found.append(("branch_record", None, error.message))
            continue
        if path == MANIFEST:
            for ref in refs:
                found += [("branch_record", ref.name, m) for m in _against(ref, refs, physical)]
    for ref in refs:
        manifest = newest.get(ref.incarnation)
        if manifest is not None:
            found += [("missing_fork", ref.name, m) for m in _find_missing_forks(root, manifest)]
    found += [("tag_record", None, m) for m in TAG_RECORDS.find_damage(root.store)]
    found += [("consumer_record", None, m) for m in CONSUMER_RECORDS.find_damage(root.store)]
    for check, folder in (("tag_record", TAGS), ("consumer_record", CONSUMERS)):
        lost = list_lost_records(root.store, folder)
        found += [(check, None, f"{path} is gone, and nobody removed it") for path in lost]
    found += [("lost_branch", one.name, str(one)) for one in find_lost(root, refs)]
    found += [("lost_version", None, message) for message in _later_known(refs, newest)]
    return found


def _readable(root: GraphRoot) -> list[BranchRef]:
    """The records that can be read; about the others each branch complains itself."""
    refs = []
    for name in list_names(root.store):
        try:
            ref = find_ref(root.store, name)
        except OmniError:
            continue
        if ref is not None:
            refs.append(ref)
    return refs


def _newest(root: GraphRoot, ref: BranchRef) -> ManifestSnapshot | None:
    try:
        return read_newest(root.manifest(ref.incarnation))
    except OmniError:
        return None


def _against(
    ref: BranchRef, refs: list[BranchRef], physical: Mapping[str, LanceBranch]
) -> list[str]:
    """Where the record of a branch differs from the manifest's ref and from its parent."""
    if ref.incarnation is None:
        return []
    known = physical.get(ref.incarnation)
    if known is None:
        return [f"the manifest has no branch {ref.incarnation}, which '{ref.name}' stands for"]
    problems = []
    if known.parent_branch != ref.parent_incarnation or known.parent_version != ref.fork_version:
        problems.append(
            f"its record says it starts at version {ref.fork_version} of {_quote(ref.parent)}, "
            f"the manifest at version {known.parent_version} of {known.parent_branch or 'main'}"
        )
    # By what it is and not by its name, which may be another by now.
    if all(one.incarnation != ref.parent_incarnation for one in refs):
        problems.append(f"it was made from {_quote(ref.parent)}, which does not exist")
    return problems


def _quote(name: str | None) -> str:
    return f"'{name}'"


def _find_missing_forks(root: GraphRoot, manifest: ManifestSnapshot) -> list[str]:
    """The forks of tables that a branch shows and their tables no longer know."""
    places = {(MANIFEST, manifest.location.branch)} | {
        (entry.path, entry.owner_branch) for entry in manifest.state.entries.values()
    }
    problems, logs = [], ChecksumLogs()
    for path, branch in sorted(places, key=str):
        if branch is not None:
            try:
                require_branch_ref(root.location(path), branch, logs)
            except OmniError as error:
                problems.append(error.message)
    return problems


def _later_known(refs: list[BranchRef], newest: Mapping[str | None, ManifestSnapshot]) -> list[str]:
    """Manifest versions that somebody knows of and that are newer than the newest there is."""
    names = {ref.incarnation: ref.name for ref in refs}
    latest: dict[str | None, tuple[int, str]] = {}

    def take(incarnation: str | None, version: int, who: str) -> None:
        if incarnation in newest and version > latest.get(incarnation, (0, ""))[0]:
            latest[incarnation] = (version, who)

    for ref in refs:
        if ref.incarnation is not None:
            take(ref.parent_incarnation, ref.fork_version, f"branch '{ref.name}' starts at it")
    for ref in refs:
        if ref.incarnation in newest:
            for commit in _commits(newest[ref.incarnation]):
                who = f"commit {commit.commit_id}, known on '{ref.name}', made it"
                take(commit.incarnation, commit.manifest_version, who)
    return [
        f"the newest manifest version of '{names[incarnation]}' is {newest[incarnation].version}, "
        f"but there was a version {version}: {who}"
        for incarnation, (version, who) in latest.items()
        if version > newest[incarnation].table.newest_version()
    ]


def _commits(manifest: ManifestSnapshot) -> tuple[Commit, ...]:
    try:
        return History().commits(manifest)
    except OmniError:
        return ()
