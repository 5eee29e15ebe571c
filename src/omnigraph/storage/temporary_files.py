"""Half-written files that a killed process left on a local disk.

Both the control objects and the tables write a file under a temporary name and then rename it.
What is found under such a name after a while is abandoned.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omnigraph.storage.layout import LOCAL_HIDDEN_PREFIX
from omnigraph.storage.objects.object_errors import translate_os_errors
from omnigraph.storage.objects.store import ObjectStore, StoreKind
from omnigraph.storage.objects.write_observer import report_write

_RESIDUE = re.compile(
    re.escape(LOCAL_HIDDEN_PREFIX) + r"tmp-.+"  # a control object
    r"|\.tmp.+"  # a file of a table
    r"|.+\.json\.tmp\..+"  # a reference of a table
    r"|.+#\d+"  # a file of a table that was being renamed
)


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    """A file that a killed process left."""

    path: str
    """Relative to the root of the graph."""
    size_bytes: int


def find_temporary_files(store: ObjectStore) -> list[TemporaryFile]:
    """The half-written files that are there now; none but on a local disk."""
    if store.kind is not StoreKind.LOCAL:
        return []
    root = Path(store.uri)
    with translate_os_errors("list", str(root)):
        return [
            TemporaryFile(path.relative_to(root).as_posix(), size)
            for path, size in _walk_temporary_files(root)
        ]


def remove_temporary_files(store: ObjectStore, found: list[TemporaryFile]) -> int:
    """Delete these files; gives their bytes."""
    root, freed = Path(store.uri), 0
    for one in found:
        place = root / one.path
        with translate_os_errors("delete", str(place)), report_write("delete_file", str(place)):
            place.unlink(missing_ok=True)
        freed += one.size_bytes
    return freed


def _walk_temporary_files(root: Path) -> Iterator[tuple[Path, int]]:
    for folder, _, names in os.walk(root):
        for name in filter(_RESIDUE.fullmatch, names):
            path = Path(folder) / name
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                if path.is_file():
                    yield path, size
