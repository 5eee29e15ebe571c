"""Sealed records: small JSON objects with a checksum of themselves, by name, and their log."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from omnigraph.errors import ManifestCorrupt, OmniError
from omnigraph.storage.layout import CONSUMERS, REFS, RELATED, REQUESTS, TAGS, find_name
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

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


SEAL = "crc32"


def seal(body: Mapping[str, Any]) -> dict[str, Any]:
    """The object with its checksum as the last member."""
    return {**body, SEAL: _crc(body)}


def is_sealed(body: Mapping[str, Any]) -> bool:
    """Return whether the checksum is right, or absent as in files of earlier builds."""
    return SEAL not in body or body[SEAL] == _crc({k: v for k, v in body.items() if k != SEAL})


def require_seal(
    body: Mapping[str, Any],
    path: str,
    members: Collection[str],
    advice: str = "restore it from a backup",
) -> None:
    """Raise unless the object has these members only, and the checksum it was written with."""
    unknown = sorted(body.keys() - {SEAL, *members})
    if unknown:
        raise ManifestCorrupt(f"{path} has unknown members: {', '.join(unknown)}")
    if not is_sealed(body):
        raise ManifestCorrupt(f"{path} is not what was written: its checksum differs; {advice}")


def _crc(body: Mapping[str, Any]) -> int:
    return zlib.crc32(msgspec.json.encode(body, order="sorted"))


FORMAT = 1

Record = TypeVar("Record", bound="DataclassInstance")


def _accept(record: object, path: str) -> None:
    """For records whose members need not fit together."""


@dataclass(frozen=True)
class NamedRecords(Generic[Record]):
    """All records of one kind: where they are and what they are made of."""

    what: str
    folder: str
    make_path: Callable[[str], str]
    type: type[Record]
    unread: tuple[str, ...] = ()
    """Members that are only written."""
    check: Callable[[Record, str], None] = _accept
    """Raises unless the members of a record fit together."""

    @cached_property
    def _members(self) -> tuple[str, ...]:
        return ("version", *self.unread, *(field.name for field in fields(self.type)))

    def encode(self, record: Record, **unread: object) -> bytes:
        body = seal({"version": FORMAT, **unread, **asdict(record)})
        return msgspec.json.format(msgspec.json.encode(body))

    def decode(self, data: bytes, name: str) -> Record:
        """The record of this name.

        Raises:
            ManifestCorrupt: it is not what was written.
        """
        path = self.make_path(name)
        try:
            body = decode_into(data, dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ManifestCorrupt(f"{path} is not the record of a {self.what}: {error}") from error
        if body.get("version") != FORMAT:
            raise ManifestCorrupt(f"{path} has format {body.get('version')}, not {FORMAT}")
        require_seal(body, path, self._members)
        for skipped in ("version", SEAL, *self.unread):
            body.pop(skipped, None)
        try:
            record = convert_into(body, self.type)
        except msgspec.ValidationError as error:
            raise ManifestCorrupt(f"{path} is not the record of a {self.what}: {error}") from error
        if getattr(record, "name", None) != name:
            raise ManifestCorrupt(f"{path} is the record of another {self.what}")
        self.check(record, path)
        return record

    def find(self, store: ObjectStore, name: str) -> Record | None:
        data = store.find(self.make_path(name))
        return None if data is None else self.decode(data, name)

    def list_names(self, store: ObjectStore) -> list[str]:
        return sorted(self._find_files(store))

    def list_all(self, store: ObjectStore) -> list[Record]:
        """Every record in the order of names; one deleted while we look is left out."""
        return [self.decode(data, name) for name, data in self.read_all(store)]

    def list_mentioning(self, store: ObjectStore, text: str) -> list[Record]:
        """The records in which a text of letters and digits occurs; others are not decoded."""
        wanted = text.encode()
        return [self.decode(data, name) for name, data in self.read_all(store) if wanted in data]

    def _find_files(self, store: ObjectStore) -> dict[str, str]:
        """The file of each record, by its name."""
        found = ((find_name(file), file) for file in store.list(self.folder))
        return {name: file for name, file in found if name is not None}

    def read_all(self, store: ObjectStore) -> Iterator[tuple[str, bytes]]:
        """Every record as it is stored, in the order of names."""
        for name, file in sorted(self._find_files(store).items()):
            data = store.find(f"{self.folder}/{file}")
            if data is not None:
                yield name, data

    def find_damage(self, store: ObjectStore) -> Iterator[str]:
        """Describe the damage of each record that cannot be read."""
        for name in self.list_names(store):
            try:
                self.find(store, name)
            except OmniError as error:
                yield error.message


class RecordMemory(Generic[Record]):
    """Lists all records again and again, and decodes those that have changed."""

    def __init__(self, records: NamedRecords[Record]) -> None:
        self._records = records
        self._known: dict[str, tuple[bytes, Record]] = {}

    def list_all(self, store: ObjectStore) -> list[Record]:
        """Every record in the order of names; one deleted while we look is left out."""
        found: dict[str, tuple[bytes, Record]] = {}
        for name, data in self._records.read_all(store):
            known = self._known.get(name)
            if known is None or known[0] != data:
                known = (data, self._records.decode(data, name))
            found[name] = known
        self._known = found
        return [record for _, record in found.values()]


_STAYS = 0
"""In place of a version: the line stays until it is forgotten, whether the file is there or not."""


def create_logged(store: ObjectStore, path: str, data: bytes) -> bool:
    """Put a record if there is none of its name; False where there is."""
    is_made = store.put_if_absent(path, data)
    if is_made:
        _note(store, path, data)
    return is_made


def _note(store: ObjectStore, path: str, data: bytes) -> None:
    """Failing to is no reason to fail what the record is about: its loss would go unnoticed."""
    folder = _find_folder(store)
    if folder is not None:
        with suppress(OSError):
            add_checksums(folder, [Checksum.of(_strip(path), data, _STAYS)])


def remove_logged(store: ObjectStore, *paths: str) -> None:
    """Remove records, on purpose."""
    folder = _find_folder(store)
    there = [path for path in paths if store.exists(path)]
    if folder is not None:
        with translate_os_errors("write", f"{folder}/{LOG}"):
            forget_files(folder, [_strip(path) for path in there])
    for path in there:
        store.delete(path)


def list_lost_records(store: ObjectStore, *prefixes: str) -> list[str]:
    """The records in some folders that were made and are gone, though nobody removed them."""
    folder = _find_folder(store)
    if folder is None:
        return []
    noted = [f"{REFS}/{name}" for name in read_log(folder).files]
    gone = [path for path in noted if path.startswith(prefixes) and not store.exists(path)]
    # Looked at again: somebody may have removed one meanwhile.
    still = read_log(folder).files if gone else {}
    return sorted(path for path in gone if _strip(path) in still)


def require_no_lost_records(store: ObjectStore, *prefixes: str) -> None:
    """Raise if a record is gone that keeps what it names from being cleaned away."""
    lost = list_lost_records(store, *prefixes)
    if lost:
        raise ManifestCorrupt(
            f"gone, though nobody removed it: {', '.join(lost)}; restore it from a backup, or make "
            "it again, and delete it then if it is no longer wanted"
        )


def find_log_damage(store: ObjectStore) -> str | None:
    """Describe the damage of the log, which may be being written; None if it is intact."""
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
    """Write the log anew, with every record that is there. To be called under the fence."""
    folder = _find_folder(store)
    if folder is None:
        return
    with translate_os_errors("write", f"{folder}/{LOG}"):
        shorten_log(folder)
        noted = read_log(folder).files
        found = {
            path: store.find(path) for path in _list_logged(store) if _strip(path) not in noted
        }
        sums = (Checksum.of(_strip(p), data, _STAYS) for p, data in found.items() if data)
        add_checksums(folder, sums)
        # Requests are forgotten by whoever made them, outside of the fence.
        forget_files(folder, [_strip(path) for path in found if not store.exists(path)])


def _list_logged(store: ObjectStore) -> list[str]:
    folders = (TAGS, CONSUMERS, RELATED, REQUESTS)
    return [f"{at}/{name}" for at in folders for name in store.list(at)]


def _find_folder(store: ObjectStore) -> str | None:
    return store.uri_of(REFS) if store.kind is StoreKind.LOCAL else None


def _strip(path: str) -> str:
    return path.removeprefix(f"{REFS}/")
