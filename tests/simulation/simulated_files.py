"""The one place all processes see: files by path, each read, listing and effect a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from simulation.simulated_time import get_turns
from simulation.turns import Fault, Turns


class ConnectionLost(ConnectionError):
    """An effect that failed, or whose answer was lost."""


@dataclass(frozen=True, slots=True)
class File:
    """The bytes of a file, and what it means to the simulated Lance."""

    data: bytes
    tag: str
    written_us: int
    """By the clock of the store, which is right."""
    content: object = None


Watcher = Callable[[str, File | None, File | None], None]
"""Called at every change with the path, the old content and the new one."""


class Files:
    """Paths below the root of one graph."""

    def __init__(self, files: dict[str, File] | None = None) -> None:
        self.by_path: dict[str, File] = {}
        self._names: dict[str, set[str]] = {}
        self._tags = 0
        self.watcher: Watcher | None = None
        for path, file in (files or {}).items():
            self._set(path, file)

    def copy(self) -> Files:
        other = Files(self.by_path)
        other._tags = self._tags
        return other

    # --- steps ------------------------------------------------------------------------------------

    def find(self, path: str) -> File | None:
        get_turns().look(f"find {path}")
        return self.by_path.get(path)

    def contains(self, path: str) -> bool:
        get_turns().look(f"contains {path}")
        return path in self.by_path

    def list_names(self, folder: str) -> list[str]:
        """The files directly in a folder."""
        get_turns().look(f"list {folder}")
        return sorted(self._names.get(folder, ()))

    def list_below(self, folder: str) -> list[str]:
        """Every file below a folder, by its path relative to it."""
        get_turns().look(f"list below {folder}")
        return sorted(self._below(folder))

    def list_folders(self, folder: str) -> list[str]:
        """The folders directly in a folder."""
        get_turns().look(f"list folders {folder}")
        below = (path for path in self._below(folder) if "/" in path)
        return sorted({path.partition("/")[0] for path in below})

    def put(self, path: str, data: bytes, content: object = None) -> None:
        self._act(f"put {path}", lambda now: self._write(path, data, content, now))

    def put_if_absent(self, path: str, data: bytes, content: object = None) -> bool:
        def write(now_us: int) -> bool:
            return path not in self.by_path and self._write(path, data, content, now_us)

        return self._act(f"put_if_absent {path}", write)

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        def write(now_us: int) -> bool:
            found = self.by_path.get(path)
            is_same = found is not None and found.tag == tag
            return is_same and self._write(path, data, None, now_us)

        return self._act(f"put_if_match {path}", write)

    def delete(self, path: str) -> None:
        self._act(f"delete {path}", lambda _: self._remove(path))

    # --- without a step ---------------------------------------------------------------------------

    def peek_names(self, folder: str) -> set[str]:
        return self._names.get(folder, set())

    def _below(self, folder: str) -> Iterator[str]:
        start = f"{folder}/" if folder else ""
        for home, names in self._names.items():
            if home == folder:
                yield from names
            elif home.startswith(start):
                at = home[len(start) :]
                yield from (f"{at}/{name}" for name in names)

    def _act(self, what: str, effect: Callable[[int], bool]) -> bool:
        turns: Turns = get_turns()
        fault = turns.act(what)
        if fault is Fault.REFUSED:
            raise ConnectionLost(f"connection reset before the request: {what}")
        done = effect(int(turns.now_s * 1_000_000))
        if fault is Fault.ANSWER_LOST:
            raise ConnectionLost(f"connection reset after the request: {what}")
        return done

    def _write(self, path: str, data: bytes, content: object, now_us: int) -> bool:
        before = self.by_path.get(path)
        self._tags += 1
        file = File(bytes(data), str(self._tags), now_us, content)
        self._set(path, file)
        if self.watcher is not None:
            self.watcher(path, before, file)
        return True

    def _set(self, path: str, file: File) -> None:
        self.by_path[path] = file
        folder, _, name = path.rpartition("/")
        self._names.setdefault(folder, set()).add(name)

    def _remove(self, path: str) -> bool:
        before = self.by_path.pop(path, None)
        if before is None:
            return False
        folder, _, name = path.rpartition("/")
        self._names[folder].discard(name)
        if not self._names[folder]:
            del self._names[folder]
        if self.watcher is not None:
            self.watcher(path, before, None)
        return True
