"""Small JSON objects under names, each with a checksum of itself: branches, tags, consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from omnigraph.errors import ManifestCorrupt, OmniError
from omnigraph.storage.layout import find_name
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.sealed_json import SEAL, require_seal, seal
from omnigraph.typed_reading import convert_into, decode_into

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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
        return [self.decode(data, name) for name, data in self._read_all(store)]

    def list_mentioning(self, store: ObjectStore, text: str) -> list[Record]:
        """The records in which a text of letters and digits occurs; others are not decoded."""
        wanted = text.encode()
        return [self.decode(data, name) for name, data in self._read_all(store) if wanted in data]

    def _find_files(self, store: ObjectStore) -> dict[str, str]:
        """The file of each record, by its name."""
        found = ((find_name(file), file) for file in store.list(self.folder))
        return {name: file for name, file in found if name is not None}

    def _read_all(self, store: ObjectStore) -> Iterator[tuple[str, bytes]]:
        for name, file in sorted(self._find_files(store).items()):
            data = store.find(f"{self.folder}/{file}")
            if data is not None:
                yield name, data

    def find_damage(self, store: ObjectStore) -> Iterator[str]:
        """What is wrong with each record that cannot be read."""
        for name in self.list_names(store):
            try:
                self.find(store, name)
            except OmniError as error:
                yield error.message
