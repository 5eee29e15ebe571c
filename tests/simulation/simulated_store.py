"""Control objects as one simulated process sees them: the promises of an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar
from zlib import crc32

from omnigraph.errors import OutcomeUnknown, StorageFailure, StorageKind
from omnigraph.storage.objects.object_store import (
    StoreKind,
    Versioned,
    make_missing_object,
    require_path,
    require_prefix,
)
from simulation.simulated_files import ConnectionLost, File, Files
from simulation.simulated_lance import make_address

T = TypeVar("T")


class SimulatedStore:
    """The files of a graph; each process has an address of its own for them, and so its memory."""

    kind = StoreKind.S3

    def __init__(self, files: Files, process: int) -> None:
        self._files = files
        self.uri = self.identity = make_address(files, process)
        self.storage_options: Mapping[str, str] = {}

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{require_path(path)}"

    def get(self, path: str) -> bytes:
        return self.get_versioned(path).data

    def find(self, path: str) -> bytes | None:
        found = self._files.find(require_path(path))
        return None if found is None else found.data

    def get_versioned(self, path: str) -> Versioned:
        found = self.find_versioned(path)
        if found is None:
            raise make_missing_object(self.uri_of(path))
        return found

    def find_versioned(self, path: str) -> Versioned | None:
        found: File | None = self._files.find(require_path(path))
        return None if found is None else Versioned(found.data, found.tag)

    def chunks(self, path: str) -> Iterator[bytes]:
        yield self.get(path)

    def put(self, path: str, data: bytes) -> None:
        _trying(lambda: self._files.put(require_path(path), data))

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        self.put(path, b"".join(chunks))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        return _trying_once(lambda: self._files.put_if_absent(require_path(path), data))

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        return _trying_once(lambda: self._files.put_if_match(require_path(path), data, tag))

    def exists(self, path: str) -> bool:
        below = self._files.list_below(require_path(path))
        return bool(below) or self._files.contains(path)

    def list(self, prefix: str) -> tuple[str, ...]:
        return tuple(self._files.list_names(require_prefix(prefix)))

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        return tuple(self._files.list_folders(require_prefix(prefix)))

    def delete(self, path: str, *, durably: bool = True) -> None:
        del durably
        _trying(lambda: self._files.delete(require_path(path)))

    def delete_all(self, paths: Sequence[str]) -> None:
        """In whatever order; one that fails does not keep the others."""
        failures = []
        for path in sorted(paths, key=lambda path: crc32(path.encode())):
            try:
                self.delete(path)
            except StorageFailure as failure:
                failures.append(failure)
        if failures:
            raise failures[0]

    def delete_prefix(self, path: str) -> None:
        for rest in self._files.list_below(require_path(path)):
            _trying(lambda rest=rest: self._files.delete(f"{path}/{rest}"))


def _trying(effect: Callable[[], T]) -> T:
    try:
        return effect()
    except ConnectionLost as error:
        raise StorageFailure(StorageKind.TRANSIENT, str(error)) from error


def _trying_once(effect: Callable[[], T]) -> T:
    try:
        return effect()
    except ConnectionLost as error:
        raise OutcomeUnknown("cannot tell whether the object was written", str(error)) from error
