"""As much of Lance as the storage of a graph uses, over simulated files.

What it does in a race is what Lance was seen to do (`docs/internals/lance.md`): commits are
rebased over versions that do not conflict, an overwrite never is, a restore covers anything, and
versions that were removed are compared with nothing. `test_simulated_lance.py` compares the two.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import lance.file
import lance.fragment
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceOperation
from lance.commit import CommitConflictError
from lance.dataset import Transaction
from lance.fragment import DataFile, FragmentMetadata, RowIdSequence

from simulation.simulated_files import Files
from simulation.simulated_time import get_turns
from simulation.turns import DAY_US, EPOCH_US

UNVERIFIED_DAYS = 7
_NEWEST_FIRST = (1 << 64) - 1
_SCHEME = "sim://"
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
_IN_LIST = re.compile(r"`(\w+)` IN \((.*)\)", re.DOTALL)
_VERSION_BYTES = struct.pack("<I", 0) + struct.pack("<QHH4s", 0, 0, 2, b"LANC")
"""The empty file of a version: its message is stored beside its bytes."""

_graphs: list[Files] = []


def make_address(files: Files, process: int) -> str:
    """The address a process has for the files of a graph."""
    _graphs[:] = [files]
    return f"{_SCHEME}p{process}/graph"


def _split(uri: str) -> tuple[str, str]:
    """The address of the graph, and the path below it."""
    root, _, path = uri.partition("/graph/")
    assert path, f"not a simulated table: {uri}"
    return f"{root}/graph", path


def name_version(version: int) -> str:
    return f"{_NEWEST_FIRST - version:020d}.manifest"


def number_version(name: str) -> int:
    return _NEWEST_FIRST - int(name.removesuffix(".manifest"))


def _not_found(path: str) -> OSError:
    return OSError(f"Not found: {path}")


# --- what a version says --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SimulatedColumn:
    number: int
    title: str

    def id(self) -> int:
        return self.number

    def name(self) -> str:
        return self.title

    def children(self) -> list[SimulatedColumn]:
        return []


@dataclass(frozen=True)
class SimulatedSchema:
    """Columns with their numbers."""

    arrow: pa.Schema

    def fields(self) -> list[SimulatedColumn]:
        return self._columns

    @cached_property
    def _columns(self) -> list[SimulatedColumn]:
        return [SimulatedColumn(at, name) for at, name in enumerate(self.arrow.names)]

    @cached_property
    def empty_rows(self) -> pa.Table:
        """No rows, with the columns of a full scan."""
        numbers = [pa.field(name, pa.uint64()) for name in ("_rowid", "_rowaddr")]
        return pa.schema([*self.arrow, *numbers]).empty_table()


@dataclass(frozen=True, slots=True)
class SimulatedDeletions:
    """The name of a list of deleted rows."""

    read_version: int
    id: int
    num_deleted_rows: int
    base_id: int | None = None

    def path(self, fragment: int) -> str:
        return f"_deletions/{fragment}-{self.read_version}-{self.id}.arrow"


class Clone(LanceOperation.BaseOperation):
    """The origin of a branch's first version."""


@dataclass(frozen=True)
class Version:
    """The content of a version's file."""

    number: int
    fragments: tuple[FragmentMetadata, ...]
    schema: SimulatedSchema
    transaction: Transaction
    next_fragment: int = 0
    next_row: int = 0
    bases: tuple[str, ...] = ()
    """Folders of other branches, which fragments name by their place here, from 1 on."""
    made_us: int = 0
    cache: dict[str, Any] = field(default_factory=dict, compare=False)
    """The decoded content, which never changes."""

    def list_files(self, folder: str) -> frozenset[str]:
        """The data and deletion files it names, given the folder it is in."""
        found = self.cache.get("files")
        if found is None:
            found = self.cache["files"] = frozenset(self._list_files(folder))
        return found

    def _list_files(self, folder: str) -> Iterator[str]:
        for fragment in self.fragments:
            for file in fragment.files:
                yield f"{self.home(file.base_id, folder)}/data/{file._path}"
            deleted = fragment.deletion_file
            if deleted is not None:
                yield f"{self.home(deleted.base_id, folder)}/{deleted.path(fragment.id)}"

    def home(self, base_id: int | None, folder: str) -> str:
        return folder if base_id is None else self.bases[base_id - 1]


def _touched(operation: LanceOperation.BaseOperation) -> set[int]:
    """The fragments an operation changes."""
    match operation:
        case LanceOperation.Update(removed_fragment_ids=removed, updated_fragments=updated):
            return {*removed, *(fragment.id for fragment in updated)}
        case LanceOperation.Rewrite(groups=groups):
            return {fragment.id for group in groups for fragment in group.old_fragments}
    raise AssertionError(f"{operation} is not simulated")


def _require_compatible(ours: Transaction, theirs: Version) -> None:
    """Raise unless ours may be put on top of a version that came after its base."""
    other = theirs.transaction.operation
    if isinstance(other, LanceOperation.Overwrite | LanceOperation.Restore):
        raise CommitConflictError("Incompatible transaction: the table was replaced")
    if isinstance(other, Clone):
        return
    if _touched(ours.operation) & _touched(other):
        raise CommitConflictError(
            f"Retryable commit conflict for version {theirs.number}: preempted by "
            f"concurrent transaction {theirs.transaction.uuid}"
        )


# --- a table --------------------------------------------------------------------------------------


class SimulatedDataset:
    """One version of one branch of a table."""

    def __init__(self, files: Files, uri: str, said: Version) -> None:
        self._files, self.uri, self._said = files, uri, said
        self._root, self._folder = _split(uri)
        self.version = said.number

    # --- opening ---

    @classmethod
    def open(cls, uri: str, version: int | None) -> SimulatedDataset:
        files, folder = _graphs[-1], _split(uri)[1]
        wanted = _newest(files, folder) if version is None else version
        if wanted is None:
            raise ValueError(f"Dataset at path {uri} was not found")
        return cls(files, uri, _read_version(files, folder, wanted))

    @property
    def schema(self) -> pa.Schema:
        return self._said.schema.arrow

    @property
    def lance_schema(self) -> SimulatedSchema:
        return self._said.schema

    @property
    def schema_metadata(self) -> Mapping[str, str]:
        given = self.schema.metadata or {}
        return {key.decode(): value.decode() for key, value in given.items()}

    @property
    def latest_version(self) -> int:
        newest = _newest(self._files, self._folder)
        if newest is None:
            raise _not_found(self._folder)
        return newest

    @property
    def _ds(self) -> SimpleNamespace:
        return SimpleNamespace(
            fragment_ids=lambda: [fragment.id for fragment in self._said.fragments],
            current_version=lambda: {"timestamp": self._said.made_us * 1_000},
        )

    def version_refs(self) -> list[dict[str, int]]:
        return [{"version": number} for number in _list_versions(self._files, self._folder)]

    def read_transaction(self, version: int) -> Transaction:
        return _read_version(self._files, self._folder, version).transaction

    def base_paths(self) -> dict[int, SimpleNamespace]:
        # As if every process had the address the branch was made under.
        paths = (f"{self._root}/{folder}" for folder in self._said.bases)
        return {at: SimpleNamespace(path=path) for at, path in enumerate(paths, 1)}

    def describe_indices(self) -> list[object]:
        return []

    # --- reading ---

    def count_rows(self, filter: str | None = None) -> int:
        assert filter is None, "counting by a filter is not simulated"
        return sum(fragment.num_rows for fragment in self._said.fragments)

    def get_fragments(self) -> list[SimulatedFragment]:
        return [SimulatedFragment(self, fragment) for fragment in self._said.fragments]

    def get_fragment(self, id: int) -> SimulatedFragment | None:
        found = (fragment for fragment in self._said.fragments if fragment.id == id)
        return next((SimulatedFragment(self, fragment) for fragment in found), None)

    def scanner(
        self,
        *,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        with_row_id: bool = False,
        with_row_address: bool = False,
        limit: int | None = None,
        fragments: Sequence[SimulatedFragment] | None = None,
        **_: object,
    ) -> SimpleNamespace:
        names = list(self.schema.names if columns is None else columns)
        names += ["_rowid"] if with_row_id and "_rowid" not in names else []
        names += ["_rowaddr"] if with_row_address and "_rowaddr" not in names else []
        chosen = self.get_fragments() if fragments is None else fragments

        def read() -> pa.Table:
            parts = [] if limit == 0 else [fragment.read_rows() for fragment in chosen]
            rows = pa.concat_tables(parts) if parts else self._empty_rows()
            return _filter(rows, filter).select(names).slice(0, limit)

        return SimpleNamespace(to_table=read, to_batches=lambda: read().to_batches())

    def _take_rows(self, ids: Iterable[int], columns: Sequence[str]) -> pa.Table:
        wanted = pa.array(ids, pa.uint64())
        rows = self.scanner(columns=[*self.schema.names, "_rowid", "_rowaddr"]).to_table()
        at = pc.index_in(wanted, value_set=rows.column("_rowid").combine_chunks()).drop_null()
        return rows.take(at).select(columns)

    def _empty_rows(self) -> pa.Table:
        return self._said.schema.empty_rows

    # --- committing ---

    @staticmethod
    def commit(
        target: SimulatedDataset | str,
        transaction: Transaction,
        *,
        max_retries: int,
        storage_options: object = None,
        enable_stable_row_ids: bool | None = None,
    ) -> SimulatedDataset:
        del storage_options, enable_stable_row_ids
        assert max_retries == 0, "only commits without retries are simulated"
        uri = target if isinstance(target, str) else target.uri
        files, folder = _graphs[-1], _split(uri)[1]
        said = _build(files, folder, transaction)
        record = f"{folder}/_transactions/{transaction.read_version}-{transaction.uuid}.txn"
        files.put(record, b"txn")
        if not files.put_if_absent(_place(folder, said.number), _VERSION_BYTES, said):
            raise CommitConflictError(
                f"Commit conflict for version {said.number}: "
                "Failed to commit the transaction after 0 retries"
            )
        return SimulatedDataset(files, uri, said)

    @staticmethod
    def drop(uri: str, storage_options: object = None, *, ignore_not_found: bool = False) -> None:
        del storage_options, ignore_not_found
        files, folder = _graphs[-1], _split(uri)[1]
        for path in files.list_below(folder):
            files.delete(f"{folder}/{path}")

    # --- branches ---

    def create_branch(self, name: str, version: int, options: object = None) -> SimulatedDataset:
        del options
        table, tree = self._table, f"{self._table}/tree/{name}"
        if self._files.list_below(tree):
            raise OSError("internal error: Clone operation should not enter build_manifest")
        said = _fork(_read_version(self._files, self._folder, version), self._folder)
        self._files.put(f"{tree}/_transactions/0-{said.transaction.uuid}.txn", b"txn")
        if not self._files.put_if_absent(_place(tree, version), _VERSION_BYTES, said):
            raise OSError(f"Dataset already exists: {tree}")
        ref = {"parentBranch": self._branch, "parentVersion": version, "mark": said.number}
        path = f"{table}/_refs/branches/{name}.json"
        if not self._files.put_if_absent(path, json.dumps(ref).encode(), ref):
            raise ValueError(f"Ref conflict error: branch {name} already exists")
        return SimulatedDataset(self._files, f"{self._root}/{tree}", said)

    @property
    def branches(self) -> SimpleNamespace:
        return SimpleNamespace(list=self._list_branches, delete=self._delete_branch)

    @property
    def tags(self) -> SimpleNamespace:
        return SimpleNamespace(list=dict)

    def _list_branches(self) -> dict[str, dict[str, Any]]:
        found = {}
        for file in self._files.list_names(f"{self._table}/_refs/branches"):
            ref = self._files.find(f"{self._table}/_refs/branches/{file}")
            if ref is None:
                raise _not_found(file)
            said: Any = ref.content
            found[file.removesuffix(".json")] = {
                "parent_branch": said["parentBranch"],
                "parent_version": said["parentVersion"],
                "branch_identifier": [(said["parentVersion"], said["mark"])],
            }
        return found

    def _delete_branch(self, name: str) -> None:
        known = self._list_branches()
        if name not in known:
            raise ValueError(f"Ref not found error: branch {name} does not exist")
        children = [other for other, ref in known.items() if ref["parent_branch"] == name]
        if children:
            raise OSError(f"Ref conflict error: Branch {name} is referenced by {children}")
        self._files.delete(f"{self._table}/_refs/branches/{name}.json")
        tree = f"{self._table}/tree/{name}"
        for path in self._files.list_below(tree):
            self._files.delete(f"{tree}/{path}")

    @cached_property
    def _table(self) -> str:
        return self._folder.partition("/tree/")[0]

    @cached_property
    def _branch(self) -> str | None:
        return self._folder.partition("/tree/")[2] or None

    # --- removing ---

    def explain_cleanup_old_versions(
        self, *, versions: Sequence[int], delete_unverified: bool = False, **_: object
    ) -> SimpleNamespace:
        found = self._inspect(versions, delete_unverified=delete_unverified)
        now = get_turns().clock_us()

        def is_unverified(path: str) -> bool:
            """Return whether a file counts as unverified; old files count, named or not."""
            return delete_unverified or path in found.strays or _is_old(self._files, path, now)

        manifests = [_place(self._folder, number) for number in found.versions]
        flags = dict.fromkeys((*manifests, *found.records), False) | {
            path: is_unverified(path) for path in (*found.files, *found.strays)
        }
        candidates = [
            SimpleNamespace(path=f"{self._root}/{path}", size_bytes=1, unverified=flag)
            for path, flag in flags.items()
        ]
        stats = SimpleNamespace(old_versions=len(found.versions), bytes_removed=len(candidates))
        return SimpleNamespace(stats=stats, candidate_files=candidates)

    def cleanup_old_versions(self, *, versions: Sequence[int], **_: object) -> SimpleNamespace:
        found = self._inspect(versions, delete_unverified=False)
        manifests = [_place(self._folder, number) for number in found.versions]
        files = [*found.files, *found.strays]
        # The order is up to Lance: no caller may rely on it.
        first, second = (
            (manifests, files) if get_turns().chance.random() < 0.5 else (files, manifests)
        )
        for path in (*first, *second, *found.records):
            self._files.delete(path)
        return SimpleNamespace(old_versions=len(manifests), bytes_removed=len(files))

    def _inspect(self, doomed: Sequence[int], *, delete_unverified: bool) -> _Removable:
        files, folder = self._files, self._folder
        refs = self._list_branches()
        named: set[str] = set()
        starts: set[int] = set()
        for name, ref in refs.items():
            shared = self._list_shared(f"{self._table}/tree/{name}")
            named |= shared
            if ref["parent_branch"] == self._branch and shared:
                # What a branch starts at is kept for as long as the branch reads files of it.
                starts.add(ref["parent_version"])
        there = _list_versions(files, folder)
        named_to_go = {number for number in doomed if number in there and number != max(there)}
        going = named_to_go - starts
        once: set[str] = set()
        records: list[str] = []
        for number in there:
            said = _find_version(files, folder, number)
            if said is not None:
                # A version that a branch starts at stays without what only it needs.
                (once if number in named_to_go else named).update(said.list_files(folder))
                record = _record(folder, said.transaction)
                if number in going or (number in named_to_go and record in files.by_path):
                    records.append(record)
        unnamed = [path for path in _list_parts(files, folder) if path not in named]
        now = get_turns().clock_us()
        strays = [
            path
            for path in unnamed
            if path not in once and (delete_unverified or _is_old(files, path, now))
        ]
        return _Removable(
            sorted(going), [path for path in unnamed if path in once], strays, records
        )

    def _list_shared(self, tree: str) -> set[str]:
        """The files in our folder that versions of another branch name."""
        if tree == self._folder:
            return set()
        versions = (_find_version(self._files, tree, n) for n in _list_versions(self._files, tree))
        named = {path for said in versions if said is not None for path in said.list_files(tree)}
        return {
            path
            for path in named
            if path.startswith((f"{self._folder}/data/", f"{self._folder}/_del"))
        }


@dataclass(frozen=True, slots=True)
class _Removable:
    versions: list[int]
    files: list[str]
    """The files that only these versions reference."""
    strays: list[str]
    """The files that no version references."""
    records: list[str]


def _is_old(files: Files, path: str, now_us: int) -> bool:
    """Return whether Lance considers a file too old to be referenced: by two clocks."""
    file = files.by_path.get(path)
    return file is not None and now_us - EPOCH_US - file.written_us > UNVERIFIED_DAYS * DAY_US


def _list_parts(files: Files, folder: str) -> list[str]:
    parts = ("data", "_deletions")
    return [
        f"{folder}/{part}/{name}" for part in parts for name in files.list_names(f"{folder}/{part}")
    ]


def _record(folder: str, transaction: Transaction) -> str:
    return f"{folder}/_transactions/{transaction.read_version}-{transaction.uuid}.txn"


def _place(folder: str, number: int) -> str:
    return f"{folder}/_versions/{name_version(number)}"


def _list_versions(files: Files, folder: str) -> list[int]:
    return sorted(number_version(name) for name in files.list_names(f"{folder}/_versions"))


def _newest(files: Files, folder: str) -> int | None:
    return max(_list_versions(files, folder), default=None)


def _find_version(files: Files, folder: str, number: int) -> Version | None:
    found = files.find(_place(folder, number))
    if found is None:
        return None
    assert isinstance(found.content, Version)
    return found.content


def _read_version(files: Files, folder: str, number: int) -> Version:
    said = _find_version(files, folder, number)
    if said is None:
        raise _not_found(_place(folder, number))
    return said


def _build(files: Files, folder: str, transaction: Transaction) -> Version:
    """The version of a transaction on top of the newest one."""
    operation = transaction.operation
    if transaction.read_version == 0:
        return _add_rows(_start(transaction), _assert_new(operation), transaction, 1)
    if isinstance(operation, LanceOperation.Overwrite):
        base = _read_version(files, folder, transaction.read_version)
        empty = replace(base, fragments=(), schema=_schema_of(operation), bases=())
        return _add_rows(empty, operation.fragments, transaction, base.number + 1)
    there = _list_versions(files, folder)
    newest = _read_version(files, folder, max(there))
    if isinstance(operation, LanceOperation.Restore):
        old = _read_version(files, folder, operation.version)
        counted = replace(old, next_fragment=newest.next_fragment, next_row=newest.next_row)
        return _add_rows(counted, (), transaction, newest.number + 1)
    for number in there:
        if number > transaction.read_version:
            # One that was removed is compared with nothing.
            _require_compatible(transaction, _read_version(files, folder, number))
    assert isinstance(operation, LanceOperation.Update), f"{operation} is not simulated"
    gone = set(operation.removed_fragment_ids)
    changed = {fragment.id: fragment for fragment in operation.updated_fragments}
    kept = tuple(changed.get(f.id, f) for f in newest.fragments if f.id not in gone)
    rest = replace(newest, fragments=kept)
    return _add_rows(rest, operation.new_fragments, transaction, newest.number + 1)


def _assert_new(operation: LanceOperation.BaseOperation) -> Iterable[FragmentMetadata]:
    assert isinstance(operation, LanceOperation.Overwrite), "a table starts with all its rows"
    return operation.fragments


def _start(transaction: Transaction) -> Version:
    return Version(0, (), _schema_of(transaction.operation), transaction)


def _schema_of(operation: Any) -> SimulatedSchema:
    given = operation.new_schema
    return given if isinstance(given, SimulatedSchema) else SimulatedSchema(given)


def _add_rows(
    base: Version, added: Iterable[FragmentMetadata], transaction: Transaction, number: int
) -> Version:
    fragments, id, row = list(base.fragments), base.next_fragment, base.next_row
    for fragment in added:
        end = row + fragment.physical_rows
        meta = RowIdSequence(pa.array(range(row, end), pa.uint64())).to_inline_metadata()
        fragments.append(replace(fragment, id=id, row_id_meta=meta))
        id, row = id + 1, end
    return Version(
        number,
        tuple(fragments),
        base.schema,
        transaction,
        id,
        row,
        base.bases,
        get_turns().clock_us(),
    )


def _list_row_ids(fragment: FragmentMetadata) -> list[int]:
    meta = fragment.row_id_meta
    return [] if meta is None else [int(id) for id in RowIdSequence.from_inline_metadata(meta)]


def _fork(said: Version, folder: str) -> Version:
    """The first version of a branch: every file is one of the parent."""
    bases = (*said.bases, folder)
    chance = get_turns().chance
    return replace(
        said,
        fragments=tuple(_inherit(fragment, len(bases)) for fragment in said.fragments),
        transaction=Transaction(said.number, Clone(), f"{chance.getrandbits(64):016x}"),
        bases=bases,
        cache={},
    )


def _inherit(fragment: FragmentMetadata, base_id: int) -> FragmentMetadata:
    files = [
        file
        if file.base_id is not None
        else DataFile(
            file._path,
            file.fields,
            file.column_indices,
            file.file_major_version,
            file.file_minor_version,
            file.file_size_bytes,
            base_id,
        )
        for file in fragment.files
    ]
    deleted: Any = fragment.deletion_file
    if deleted is not None and deleted.base_id is None:
        deleted = replace(deleted, base_id=base_id)
    return replace(fragment, files=files, deletion_file=deleted)


# --- rows -----------------------------------------------------------------------------------------


class SimulatedFragment:
    """A fragment of an open version."""

    def __init__(self, table: SimulatedDataset, metadata: FragmentMetadata) -> None:
        self._table, self.metadata = table, metadata

    def read_rows(self) -> pa.Table:
        """Every live row with its id and its address; nulls where a file has no such column."""
        table, fragment = self._table, self.metadata
        (file,) = fragment.files
        held = self._content(f"{table._said.home(file.base_id, table._folder)}/data/{file._path}")
        deleted = self._deleted()
        known = table._said.cache.setdefault("rows", {})
        if fragment.id not in known:
            known[fragment.id] = self._build_rows(held, deleted)
        return known[fragment.id]

    def _build_rows(self, held: pa.Table, deleted: frozenset[int]) -> pa.Table:
        table, fragment = self._table, self.metadata
        count = fragment.physical_rows
        columns = [
            held.column(one.name) if one.name in held.schema.names else pa.nulls(count, one.type)
            for one in table.schema
        ]
        base = fragment.id << 32
        columns.append(pa.array(_list_row_ids(fragment), pa.uint64()))
        columns.append(pa.array(range(base, base + count), pa.uint64()))
        rows = pa.table(columns, schema=table._empty_rows().schema)
        return rows.take([at for at in range(count) if at not in deleted]) if deleted else rows

    def take(self, ranks: Sequence[int], *, columns: Sequence[str]) -> pa.Table:
        return self.read_rows().take(list(ranks)).select(columns)

    def delete_rows(self, offsets: Iterable[int]) -> FragmentMetadata | None:
        table, fragment = self._table, self.metadata
        gone = self._deleted() | frozenset(offsets)
        if len(gone) == fragment.physical_rows:
            return None
        number = get_turns().chance.getrandbits(64)
        marks = SimulatedDeletions(table.version, number, len(gone))
        table._files.put(f"{table._folder}/{marks.path(fragment.id)}", b"deletions", gone)
        return replace(fragment, deletion_file=marks)

    def _deleted(self) -> frozenset[int]:
        table, marks = self._table, self.metadata.deletion_file
        if marks is None:
            return frozenset()
        home = table._said.home(marks.base_id, table._folder)
        return self._content(f"{home}/{marks.path(self.metadata.id)}")

    def _content(self, path: str) -> Any:
        found = self._table._files.find(path)
        if found is None:
            raise _not_found(path)
        return found.content


def _filter(rows: pa.Table, text: str | None) -> pa.Table:
    if text is None:
        return rows
    if text == "FALSE":
        return rows.slice(0, 0)
    found = _IN_LIST.fullmatch(text)
    assert found is not None, f"the filter {text} is not simulated"
    keys = [key.replace("''", "'") for key in _QUOTED.findall(found[2])]
    return rows.filter(pc.is_in(rows.column(found[1]), value_set=pa.array(keys, pa.string())))


def write_fragments(
    rows: pa.Table | pa.RecordBatchReader, target: SimulatedDataset | str, **_: object
) -> list[FragmentMetadata]:
    """Rows in a file that nothing refers to."""
    held = rows.read_all() if isinstance(rows, pa.RecordBatchReader) else rows
    if not held.num_rows:
        return []
    known = held.schema.names if isinstance(target, str) else target.schema.names
    files, folder = _graphs[-1], _split(target if isinstance(target, str) else target.uri)[1]
    name = f"{get_turns().chance.getrandbits(96):024x}.lance"
    files.put(f"{folder}/data/{name}", b"rows", held.combine_chunks())
    numbers = [known.index(column) for column in held.schema.names]
    file = DataFile(name, numbers, list(range(len(numbers))), 2, 2, 1)
    return [FragmentMetadata(0, [file], held.num_rows)]


class SimulatedFileSession:
    """The files of one folder, by their paths relative to it."""

    def __init__(self, uri: str, storage_options: object = None) -> None:
        del storage_options
        self._files, self._folder = _graphs[-1], _split(uri)[1]

    def contains(self, path: str) -> bool:
        return self._files.contains(f"{self._folder}/{path}")

    def list(self, prefix: str = "") -> list[str]:
        if not prefix:
            return self._files.list_below(self._folder)
        return [f"{prefix}/{path}" for path in self._files.list_below(f"{self._folder}/{prefix}")]

    def list_with_delimiter(self, prefix: str) -> SimpleNamespace:
        folders = self._files.list_folders(f"{self._folder}/{prefix}")
        return SimpleNamespace(common_prefixes=[f"{prefix}/{name}" for name in folders])

    def delete_file(self, path: str) -> None:
        self._files.delete(f"{self._folder}/{path}")

    def download_file(self, path: str, local: str) -> None:
        found = self._files.find(f"{self._folder}/{path}")
        if found is None:
            raise _not_found(path)
        Path(local).write_bytes(found.data)


def open_dataset(uri: str, version: int | None = None, **_: object) -> SimulatedDataset:
    return SimulatedDataset.open(uri, version)


class SimulatedSession:
    def __init__(self, **_: object) -> None:
        """Do nothing: there is no cache."""


def replace_lance() -> None:
    """To be called before our code is imported: it binds these names."""
    replaced: dict[str, Callable[..., object]] = {
        "dataset": open_dataset,
        "LanceDataset": SimulatedDataset,
        "Session": SimulatedSession,
    }
    for name, simulated in replaced.items():
        setattr(lance, name, simulated)
    lance.file.LanceFileSession = SimulatedFileSession
    lance.fragment.write_fragments = write_fragments
