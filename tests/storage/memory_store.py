"""An object store in the memory of this process, with the promises of the others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from omnigraph.storage.objects.object_store import (
    CHUNK_BYTES,
    StoreKind,
    Versioned,
    make_missing_object,
    require_path,
    require_prefix,
)

_numbers = count(1)


class MemoryObjectStore:
    """Objects in a dictionary; every call is one step to all threads."""

    kind = StoreKind.S3

    def __init__(self) -> None:
        self.uri = f"memory://{next(_numbers)}"
        self.identity = self.uri
        self.storage_options: Mapping[str, str] = {}
        self._lock = threading.Lock()
        self._tags = count(1)
        self._objects: dict[str, Versioned] = {}

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{require_path(path)}"

    def get(self, path: str) -> bytes:
        return self.get_versioned(path).data

    def find(self, path: str) -> bytes | None:
        found = self.find_versioned(path)
        return None if found is None else found.data

    def get_versioned(self, path: str) -> Versioned:
        found = self.find_versioned(path)
        if found is None:
            raise make_missing_object(self.uri_of(path))
        return found

    def find_versioned(self, path: str) -> Versioned | None:
        with self._lock:
            return self._objects.get(require_path(path))

    def chunks(self, path: str) -> Iterator[bytes]:
        data = self.get(path)
        yield from (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        self.put(path, b"".join(chunks))

    def put(self, path: str, data: bytes, *, durably: bool = True) -> None:
        with self._lock:
            self._write(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        with self._lock:
            if path in self._objects:
                return False
            self._write(path, data)
            return True

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        with self._lock:
            found = self._objects.get(require_path(path))
            if found is None or found.tag != tag:
                return False
            self._write(path, data)
            return True

    def _write(self, path: str, data: bytes) -> None:
        self._objects[require_path(path)] = Versioned(bytes(data), str(next(self._tags)))

    def exists(self, path: str) -> bool:
        with self._lock:
            return path in self._objects or bool(self._list_below(path))

    def list(self, prefix: str) -> tuple[str, ...]:
        with self._lock:
            return tuple(sorted(rest for rest in self._list_below(prefix) if "/" not in rest))

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        with self._lock:
            folders = {rest.split("/")[0] for rest in self._list_below(prefix) if "/" in rest}
            return tuple(sorted(folders))

    def _list_below(self, prefix: str) -> tuple[str, ...]:
        start = f"{require_prefix(prefix)}/" if prefix else ""
        below = (path for path in self._objects if path.startswith(start))
        return tuple(path.removeprefix(start) for path in below)

    def delete(self, path: str, *, durably: bool = True) -> None:
        with self._lock:
            self._objects.pop(require_path(path), None)

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_prefix(self, path: str) -> None:
        with self._lock:
            for rest in self._list_below(require_path(path)):
                del self._objects[f"{path}/{rest}"]
