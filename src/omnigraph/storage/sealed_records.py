"""Sealed records: small JSON objects with a checksum, replaced by compare-and-swap, and their log.

Each kind is a `RecordKind`. The log lists, on a local disk, records that nothing else refers to.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Generic, TypeVar

import msgspec

from omnigraph.errors import ManifestCorrupt, OmniError, StorageError
from omnigraph.storage.layout import (
    CONSUMERS,
    REFS,
    RELATED,
    REQUESTS,
    TAGS,
    find_name,
    make_record_path,
)
from omnigraph.storage.objects.object_store import ObjectStore, StoreKind, translate_os_errors
from omnigraph.storage.tables.checksums import (
    LOG,
    Checksum,
    add_checksums,
    forget_files,
    read_log,
    shorten_log,
)
from omnigraph.struct_decoding import convert_into, decode_into

SEAL = "crc32"


def seal(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object with its checksum as the last member."""
    return {**body, SEAL: _crc(body)}


def is_sealed(body: Mapping[str, Any]) -> bool:
    """Return whether the checksum is right, or absent as in files of earlier builds."""
    return SEAL not in body or body[SEAL] == _crc({k: v for k, v in body.items() if k != SEAL})


def require_seal(body: Mapping[str, Any], path: str, members: Collection[str], advice: str) -> None:
    """Raise unless the object has these members only, and the checksum it was written with."""
    unknown = sorted(body.keys() - {SEAL, *members})
    if unknown:
        raise ManifestCorrupt(f"{path} has unknown members: {', '.join(unknown)}")
    if not is_sealed(body):
        raise ManifestCorrupt(f"{path} is damaged: its checksum does not match; {advice}")


def _crc(body: Mapping[str, Any]) -> int:
    return zlib.crc32(msgspec.json.encode(body, order="sorted"))


Record = TypeVar("Record")


class DamagedRecord(ManifestCorrupt):
    """A record that cannot be read; `is_altered` if only its checksum is wrong."""

    def __init__(self, path: str, reason: str, *, is_altered: bool = False) -> None:
        super().__init__(f"{path} is {reason}")
        self.reason, self.is_altered = reason, is_altered


class NewerRecord(ManifestCorrupt):
    """A record of a later format than this release reads."""

    def __init__(self, path: str, version: int, known: int) -> None:
        super().__init__(f"{path} has format {version}, not {known}")
        self.version = version


@dataclass(frozen=True)
class StoredRecord(Generic[Record]):
    """A record as it is stored, with the tag by which it is replaced."""

    kind: RecordKind[Record]
    name: str
    data: bytes
    tag: str

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        return f"sha256:{sha256(self.data).hexdigest()}"

    @cached_property
    def record(self) -> Record:
        """The decoded record; raises `ManifestCorrupt` if it is damaged."""
        return self.kind.decode(self.data, self.name)


def _accept(_: object) -> str | None:
    return None


@dataclass(frozen=True, kw_only=True)
class RecordKind(Generic[Record]):
    """A kind of sealed record: its path, its members, and how it is read and replaced."""

    what: str
    """Its name with an article, for messages."""
    type: type[Record]
    base_path: str
    """The folder of the records; the path, if there is only one."""
    key: str | None = "name"
    """The member that names a record; None if there is only one."""
    version: int = 1
    version_member: str = "version"
    is_logged: bool = False
    """True if records are listed in the log, by which alone a lost one is detected."""
    find_problem: Callable[[Record], str | None] = _accept
    """Return the reason why the members of a record do not fit together."""
    advice: str = "; restore it from a backup"
    """The end of messages about damage."""
    needs_seal: bool = False
    """True if a record without a checksum is damaged."""

    def path(self, name: str = "") -> str:
        return self.base_path if self.key is None else make_record_path(self.base_path, name)

    def path_of(self, record: Record) -> str:
        return self.path("" if self.key is None else getattr(record, self.key))

    def encode(self, record: Record) -> bytes:
        members = msgspec.to_builtins(record, order="deterministic")
        body = seal({self.version_member: self.version, **members})
        return msgspec.json.format(msgspec.json.encode(body))

    def decode(self, data: bytes, name: str = "") -> Record:
        """Decode the record of a name.

        Raises:
            DamagedRecord: it is not what was written.
            NewerRecord: it has a later format.
        """
        path = self.path(name)
        try:
            body = decode_into(data, dict[str, object])
            version = body.get(self.version_member, self.version)
            if isinstance(version, int) and version > self.version:
                raise NewerRecord(path, version, self.version)
            is_whole = is_sealed(body) and (SEAL in body or not self.needs_seal)
            for added in (self.version_member, SEAL):
                body.pop(added, None)
            record = convert_into(body, self.type)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedRecord(path, self._describe(str(error))) from error
        problem = self._find_problem(record, name, version, body)
        if problem is not None:
            raise DamagedRecord(path, self._describe(problem))
        if not is_whole:
            problem = self._describe("its checksum is not that of its content")
            raise DamagedRecord(path, problem, is_altered=True)
        return record

    def _describe(self, problem: str) -> str:
        return f"not {self.what}: {problem}{self.advice}"

    def _find_problem(
        self, record: Record, name: str, version: object, body: Mapping[str, object]
    ) -> str | None:
        if version != self.version:
            return f"it has format {version}"
        members = getattr(self.type, "__dataclass_fields__", body)
        unknown = sorted(body.keys() - members)
        if unknown:
            return f"it has unknown members: {', '.join(unknown)}"
        if self.key is not None and getattr(record, self.key) != name:
            return f"it has another {self.key.replace('_', ' ')}"
        return self.find_problem(record)

    def find(self, store: ObjectStore, name: str = "") -> Record | None:
        """Read a record; None if there is none."""
        data = store.find(self.path(name))
        return None if data is None else self.decode(data, name)

    def find_stored(self, store: ObjectStore, name: str = "") -> StoredRecord[Record] | None:
        """Read a record undecoded, with its tag; None if there is none."""
        found = store.find_versioned(self.path(name))
        return None if found is None else StoredRecord(self, name, found.data, found.tag)

    def holds(self, store: ObjectStore, record: Record) -> bool:
        """Return whether exactly this record is stored."""
        return store.find(self.path_of(record)) == self.encode(record)

    def create(self, store: ObjectStore, record: Record) -> bool:
        """Write a record if there is none of its name; False if there is."""
        return self.swap(store, record, None)

    def swap(self, store: ObjectStore, record: Record, over: StoredRecord[Record] | None) -> bool:
        """Replace the record that was read, or create one where there was none.

        Return False if another writer was first. A lost response is resolved by reading.
        """
        path, data = self.path_of(record), self.encode(record)
        try:
            if over is None:
                is_done = store.put_if_absent(path, data)
            else:
                is_done = store.put_if_match(path, data, over.tag)
        except StorageError:
            if not _is_stored(store, path, data):
                raise
            is_done = True
        if is_done and over is None and self.is_logged:
            _log_record(store, path, data)
        return is_done

    def put(self, store: ObjectStore, record: Record) -> None:
        """Write a record in place of any other."""
        store.put(self.path_of(record), self.encode(record))

    def remove(self, store: ObjectStore, *names: str) -> None:
        """Remove records, where there are any. A lost response is resolved by reading."""
        paths = [self.base_path] if self.key is None else list(map(self.path, names))
        if self.is_logged:
            paths = [path for path in paths if store.exists(path)]
            _forget_records(store, paths)
        for path in paths:
            try:
                store.delete(path)
            except StorageError:
                if store.find(path) is not None:
                    raise

    def list_names(self, store: ObjectStore) -> list[str]:
        return sorted(self._find_files(store))

    def list_all(self, store: ObjectStore) -> list[Record]:
        """List all records by name, without those that are deleted meanwhile."""
        return [self.decode(data, name) for name, data in self.read_all(store)]

    def list_mentioning(self, store: ObjectStore, text: str) -> list[Record]:
        """List the records that contain a text of letters and digits; others are not decoded."""
        wanted = text.encode()
        return [self.decode(data, name) for name, data in self.read_all(store) if wanted in data]

    def _find_files(self, store: ObjectStore) -> dict[str, str]:
        """Return the file of each record by name."""
        found = ((find_name(file), file) for file in store.list(self.base_path))
        return {name: file for name, file in found if name is not None}

    def read_all(self, store: ObjectStore) -> Iterator[tuple[str, bytes]]:
        """Yield every record undecoded, in the order of names."""
        for name, file in sorted(self._find_files(store).items()):
            data = store.find(f"{self.base_path}/{file}")
            if data is not None:
                yield name, data

    def find_damage(self, store: ObjectStore) -> Iterator[str]:
        """Describe each record that cannot be read, and each that is lost."""
        for name in self.list_names(store):
            try:
                self.find(store, name)
            except OmniError as error:
                yield error.message
        for path in list_lost_records(store, self.base_path) if self.is_logged else ():
            yield f"{path} is missing, and no writer removed it"


def _is_stored(store: ObjectStore, path: str, data: bytes) -> bool:
    try:
        return store.find(path) == data
    except StorageError:
        return False


class RecordMemory(Generic[Record]):
    """Cache of decoded records: listed again, only changed ones are decoded."""

    def __init__(self, records: RecordKind[Record]) -> None:
        self._records = records
        self._known: dict[str, tuple[bytes, Record]] = {}

    def list_all(self, store: ObjectStore) -> list[Record]:
        """List all records by name, without those that are deleted meanwhile."""
        found: dict[str, tuple[bytes, Record]] = {}
        for name, data in self._records.read_all(store):
            known = self._known.get(name)
            if known is None or known[0] != data:
                known = (data, self._records.decode(data, name))
            found[name] = known
        self._known = found
        return [record for _, record in found.values()]


_NO_VERSION = 0
"""In place of a version: the line stays until the record is removed."""


def _log_record(store: ObjectStore, path: str, data: bytes) -> None:
    """Add a record to the log, ignoring errors: they would only hide a later loss."""
    folder = _find_folder(store)
    if folder is not None:
        with suppress(OSError):
            add_checksums(folder, [Checksum.of(_strip(path), data, _NO_VERSION)])


def _forget_records(store: ObjectStore, paths: Collection[str]) -> None:
    """Remove records from the log, before they are removed themselves."""
    folder = _find_folder(store)
    if folder is not None:
        with translate_os_errors("write", f"{folder}/{LOG}"):
            forget_files(folder, [_strip(path) for path in paths])


def list_lost_records(store: ObjectStore, *prefixes: str) -> list[str]:
    """List the logged records of some folders that are missing and were not removed."""
    folder = _find_folder(store)
    if folder is None:
        return []
    noted = [f"{REFS}/{name}" for name in read_log(folder).files]
    gone = [path for path in noted if path.startswith(prefixes) and not store.exists(path)]
    # Read again: one may have been removed meanwhile.
    still = read_log(folder).files if gone else {}
    return sorted(path for path in gone if _strip(path) in still)


def require_no_lost_records(store: ObjectStore, *prefixes: str) -> None:
    """Raise if a record is lost that retains versions."""
    lost = list_lost_records(store, *prefixes)
    if lost:
        raise ManifestCorrupt(
            f"missing, but not deleted: {', '.join(lost)}; restore it from a backup, or create "
            "it again, and delete it then if it is no longer wanted"
        )


def find_log_damage(store: ObjectStore) -> str | None:
    """Describe the damage of the log, which may be written concurrently; None if it is intact."""
    folder = _find_folder(store)
    if folder is None:
        return None
    log = read_log(folder)
    if log.damaged_lines:
        return f"has {log.damaged_lines} damaged lines"
    missing = [path for path in _list_logged(store) if _strip(path) not in log.files]
    if missing and not read_log(folder).files.keys() >= {_strip(path) for path in missing}:
        return f"does not list {', '.join(missing)}, so that its loss would not be noticed"
    return None


def rewrite_record_log(store: ObjectStore) -> None:
    """Rewrite the log with every existing record; called under the fence."""
    folder = _find_folder(store)
    if folder is None:
        return
    with translate_os_errors("write", f"{folder}/{LOG}"):
        shorten_log(folder)
        noted = read_log(folder).files
        found = {
            path: store.find(path) for path in _list_logged(store) if _strip(path) not in noted
        }
        sums = (Checksum.of(_strip(p), data, _NO_VERSION) for p, data in found.items() if data)
        add_checksums(folder, sums)
        # Requests are removed outside of the fence.
        forget_files(folder, [_strip(path) for path in found if not store.exists(path)])


def _list_logged(store: ObjectStore) -> list[str]:
    folders = (TAGS, CONSUMERS, RELATED, REQUESTS)
    return [f"{at}/{name}" for at in folders for name in store.list(at)]


def _find_folder(store: ObjectStore) -> str | None:
    return store.uri_of(REFS) if store.kind is StoreKind.LOCAL else None


def _strip(path: str) -> str:
    return path.removeprefix(f"{REFS}/")
