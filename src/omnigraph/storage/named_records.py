"""Small JSON objects under names, each with a checksum of itself: tags and consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from omnigraph.errors import ManifestCorrupt, OmniError
from omnigraph.storage.layout import find_name
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.sealed_json import SEAL, require_seal, seal

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = 1

Record = TypeVar("Record", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class NamedRecords(Generic[Record]):
    """All records of one kind: where they are and what they are made of."""

    what: str
    folder: str
    make_path: Callable[[str], str]
    type: type[Record]
    unread: tuple[str, ...] = ()
    """Members that are only written."""

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
            body = msgspec.json.decode(data, type=dict[str, object])
        except msgspec.DecodeError as error:
            raise ManifestCorrupt(f"{path} is not the record of a {self.what}: {error}") from error
        if body.get("version") != FORMAT:
            raise ManifestCorrupt(f"{path} has format {body.get('version')}, not {FORMAT}")
        members = [field.name for field in fields(self.type)]
        require_seal(body, path, ("version", *self.unread, *members))
        for skipped in ("version", SEAL, *self.unread):
            body.pop(skipped, None)
        try:
            record = msgspec.convert(body, self.type)
        except msgspec.ValidationError as error:
            raise ManifestCorrupt(f"{path} is not the record of a {self.what}: {error}") from error
        if getattr(record, "name", None) != name:
            raise ManifestCorrupt(f"{path} is the record of another {self.what}")
        return record

    def find(self, store: ObjectStore, name: str) -> Record | None:
        data = store.find(self.make_path(name))
        return None if data is None else self.decode(data, name)

    def list_names(self, store: ObjectStore) -> list[str]:
        found = (find_name(file) for file in store.list(self.folder))
        return sorted(name for name in found if name is not None)

    def list_all(self, store: ObjectStore) -> list[Record]:
        """Every record in the order of names; one deleted while we look is left out."""
        found = (self.find(store, name) for name in self.list_names(store))
        return [record for record in found if record is not None]

    def find_damage(self, store: ObjectStore) -> Iterator[str]:
        """What is wrong with each record that cannot be read."""
        for name in self.list_names(store):
            try:
                self.find(store, name)
            except OmniError as error:
                yield error.message
