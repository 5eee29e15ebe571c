"""Invariants of a simulated graph, checked by an omniscient observer that shares no code.

The journal has every attempted write and its result. A branch is right if its
commits hold every acknowledged operation once and in order, none that failed, and if its tables are
exactly what these operations make of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.storage.manifest import CommitRecord
from simulation.simulated_files import File, Files
from simulation.simulated_lance import Version, name_version, number_version

MANIFEST = "__manifest"
REFS = "_refs/branches"
TAGS = "_refs/tags"
Rows = dict[str, int]
State = dict[str, Rows]


class Violation(AssertionError):
    """Something that must never be so."""


@dataclass(frozen=True, slots=True)
class Writing:
    """One write: the rows it puts into tables, and those it removes."""

    name: str
    branch: str
    puts: Mapping[str, Mapping[str, int]]
    removes: Mapping[str, Sequence[str]]
    is_costly: bool = False
    brings: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The new rows of tables adopted from another branch."""

    def apply(self, state: State) -> None:
        state |= {table: dict(rows) for table, rows in self.brings.items()}
        for table, rows in self.puts.items():
            state[table] |= rows
        for table, ids in self.removes.items():
            for id in ids:
                state[table].pop(id, None)


@dataclass
class Fact:
    """The outcome of a write."""

    writing: Writing
    began: int
    acknowledged: int | None = None
    """The step at which the write was acknowledged."""
    incarnation: str | None = None
    failed: str | None = None
    """The error of a write that was reported as failed."""


@dataclass
class Journal:
    """The operations of all processes of a history, and their results."""

    tables: tuple[str, ...]
    facts: dict[str, Fact] = field(default_factory=dict)
    created: dict[str, str] = field(default_factory=dict)
    """Branches whose creation was acknowledged: their names by incarnation."""
    doomed: set[str] = field(default_factory=set)
    """Names with an attempted deletion or rename."""
    consumers: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    """The acknowledged position of each consumer: a branch, and a commit of its history."""

    def list_acknowledged(self, incarnation: str | None) -> list[Fact]:
        return [
            fact
            for fact in self.facts.values()
            if fact.acknowledged is not None and fact.incarnation == incarnation
        ]

    def require_right(
        self,
        *,
        branch: str,
        incarnation: str | None,
        must_have: Iterable[Fact],
        head: str | None,
        commits: Mapping[str, CommitRecord],
        found: State,
    ) -> None:
        """Raise unless a branch holds what it must, as some process has just read it."""
        chain = _list_chain(head, commits)
        names = [commit.origin for commit in chain if commit.origin is not None]
        where = f"branch {branch} at {head}"
        if len(set(names)) != len(names):
            raise Violation(f"{where} has a write twice: {names}")
        for fact in must_have:
            if fact.writing.name not in names:
                raise Violation(f"{where} has lost {fact.writing.name}, which was acknowledged")
        state: State = {table: {} for table in self.tables}
        for at, name in enumerate(names):
            fact = self.facts[name]
            if fact.failed is not None:
                raise Violation(f"{where} shows {name}, which failed: {fact.failed}")
            self._require_order(where, fact, names[:at])
            fact.writing.apply(state)
        if found != state:
            raise Violation(f"{where} holds {found} instead of {state}")

    def _require_order(self, where: str, fact: Fact, before: list[str]) -> None:
        for name in before:
            done = fact.acknowledged
            if done is not None and done < self.facts[name].began:
                raise Violation(f"{where} has {fact.writing.name} after {name}, which began later")


def _list_chain(head: str | None, commits: Mapping[str, CommitRecord]) -> list[CommitRecord]:
    """The commits from the first one to the head."""
    chain = []
    while head is not None:
        if head not in commits:
            raise Violation(f"commit {head} is not in the history")
        chain.append(commits[head])
        head = commits[head].parent_commit_id
    return chain[::-1]


class NeededFiles:
    """Watches that nothing is removed which a branch, a retained commit or a tag shows."""

    def __init__(self, files: Files, keep: int, journal: Journal) -> None:
        self._files, self._keep, self._journal = files, keep, journal
        self._needed: frozenset[str] | None = None
        self._parsed: dict[str, list[dict[str, Any]]] = {}
        self.removals = 0
        files.watcher = self._see

    def _see(self, path: str, before: File | None, after: File | None) -> None:
        is_kept = path.startswith(("nodes/", "edges/", f"{MANIFEST}/"))
        if after is None and is_kept:
            self.removals += 1
            if path in self.list_needed():
                raise Violation(f"{path} was removed, which is needed")
        if path.startswith((REFS, TAGS)) or "/_versions/" in path:
            self._needed = None

    def forget(self) -> None:
        """Something else is needed from now on."""
        self._needed = None

    def list_needed(self) -> frozenset[str]:
        if self._needed is None:
            needed: set[str] = set()
            for folder, numbers in self._list_needed_manifests().items():
                for number in numbers:
                    needed |= self._list_needs(folder, number)
            self._needed = frozenset(needed)
        return self._needed

    def require_whole(self) -> None:
        """Raise unless every needed file exists."""
        missing = [path for path in self.list_needed() if path not in self._files.by_path]
        if missing:
            raise Violation(f"missing: {sorted(missing)}")

    def list_garbage(self) -> list[str]:
        """The data and deletion files of tables that no version names."""
        named: set[str] = set()
        for path, file in self._files.by_path.items():
            if isinstance(file.content, Version):
                named |= file.content.list_files(path.partition("/_versions/")[0])
        parts = ("/data/", "/_deletions/")
        return sorted(
            path
            for path in self._files.by_path
            if path not in named and any(part in path for part in parts)
        )

    def _list_needed_manifests(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for incarnation in (None, *self._list_incarnations()):
            folder = _manifest_folder(incarnation)
            there = [number_version(n) for n in self._files.peek_names(f"{folder}/_versions")]
            if not there and incarnation not in self._journal.created:
                continue  # its creator was suspended, and will find the branch deleted
            if not there:
                raise Violation(f"branch {incarnation} has no manifest")
            newest = self._version(folder, max(there))
            own = sorted(self._list_own_commits(folder, newest, incarnation), reverse=True)
            found.setdefault(folder, set()).update([newest.number, *own[: self._keep]])
        for incarnation, commit in self._journal.consumers.values():
            for author, number in self._list_unread(incarnation, commit):
                found.setdefault(_manifest_folder(author), set()).add(number)
        for name in self._files.peek_names(TAGS):
            tag = json.loads(self._files.by_path[f"{TAGS}/{name}"].data)
            folder = _manifest_folder(tag["incarnation"])
            found.setdefault(folder, set()).add(tag["manifest_version"])
        return found

    def _list_incarnations(self) -> list[str]:
        names = self._files.peek_names(REFS)
        records = (json.loads(self._files.by_path[f"{REFS}/{name}"].data) for name in names)
        return [record["incarnation"] for record in records]

    def _version(self, folder: str, number: int) -> Version:
        file = self._files.by_path.get(f"{folder}/_versions/{name_version(number)}")
        if file is None:
            raise Violation(f"version {number} of {folder} is gone, which is needed")
        assert isinstance(file.content, Version)
        return file.content

    def _list_needs(self, folder: str, number: int) -> frozenset[str]:
        manifest = self._version(folder, number)
        found = manifest.cache.get("needs")
        if found is None:
            needs = {f"{folder}/_versions/{name_version(number)}", *manifest.list_files(folder)}
            for path, version in self._list_pins(folder, manifest):
                shown = self._version(path, version)
                needs |= {f"{path}/_versions/{name_version(version)}", *shown.list_files(path)}
            found = manifest.cache["needs"] = frozenset(needs)
        return found

    def _list_pins(self, folder: str, manifest: Version) -> list[tuple[str, int]]:
        rows = [row for row in self._read_rows(folder, manifest) if row["_state"]]
        paths = {
            (row["stable_table_id"], row["table_incarnation_id"]): row["location"]
            for row in rows
            if row["object_type"] == "table"
        }
        pins = []
        for row in rows:
            if row["object_type"] == "table_version":
                path = paths[row["stable_table_id"], row["table_incarnation_id"]]
                branch = row["table_branch"]
                pins.append((f"{path}/tree/{branch}" if branch else path, row["table_version"]))
        return pins

    def _list_own_commits(
        self, folder: str, manifest: Version, incarnation: str | None
    ) -> set[int]:
        rows = self._read_rows(folder, manifest)
        return {row["table_version"] for row in rows if row["author"] == (incarnation,)}

    def _list_unread(
        self, incarnation: str | None, commit: str
    ) -> Iterator[tuple[str | None, int]]:
        """List a commit of an existing branch and all later ones there."""
        folder = _manifest_folder(incarnation)
        there = [number_version(n) for n in self._files.peek_names(f"{folder}/_versions")]
        if incarnation not in (None, *self._list_incarnations()) or not there:
            return
        rows = self._read_rows(folder, self._version(folder, max(there)))
        commits = {row["object_id"]: row for row in rows if row["author"] is not None}
        unread = {commit}
        # Each comes before those that were made from it.
        for row in sorted(commits.values(), key=lambda row: row["table_version"]):
            if row["object_id"] in unread or row["parent"] in unread:
                unread.add(row["object_id"])
                yield row["author"][0], row["table_version"]

    def _read_rows(self, folder: str, manifest: Version) -> list[dict[str, Any]]:
        found = []
        for fragment in manifest.fragments:
            (file,) = fragment.files
            path = f"{manifest.home(file.base_id, folder)}/data/{file._path}"
            if path not in self._parsed:
                held = self._files.by_path.get(path)
                if held is None:
                    raise Violation(f"version {manifest.number} of {folder} names {path}: gone")
                content: Any = held.content
                rows = content.to_pylist()
                empty = dict.fromkeys(("_state", "table_branch", "location", "author", "parent"))
                self._parsed[path] = [{**empty, **row, **_read_author(row)} for row in rows]
            found += self._parsed[path]
        return found


def _read_author(row: Mapping[str, Any]) -> dict[str, Any]:
    """The branch a commit was made on, and the one before it; nothing of other rows."""
    if row["object_type"] != "graph_commit":
        return {}
    said = json.loads(row["metadata"])
    return {"author": (said["incarnation"],), "parent": said["parent_commit_id"]}


def _manifest_folder(incarnation: str | None) -> str:
    return MANIFEST if incarnation is None else f"{MANIFEST}/tree/{incarnation}"
