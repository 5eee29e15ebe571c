"""Folders that are filled once and read by every sample: for one case, or cached between runs.

A cached folder is named by a digest of all that decides its content: who fills it, the parameters,
the sources of the generators and of the module that fills it, and the versions of what it stands
on. A change to any of them makes a new folder; the old one is left for `--fresh` or for `rm`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.leftovers import leave
from bench.outcome import Failure
from bench.process import Request, run_prepare
from bench.suite import JsonValue

_HERE = Path(__file__).resolve().parent
_CACHE = _HERE / "results" / ".prepared"
_STANDS_ON = ("omnigraph", "pylance", "pyarrow", "numpy")


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of prepared data; with `fresh`, existing data is prepared again, once."""

    folder: Path = _CACHE
    fresh: bool = False
    filled: set[Path] = field(default_factory=set)

    def has(self, path: Path) -> bool:
        return path.exists() and (path in self.filled or not self.fresh)


@contextmanager
def prepared(
    request: Request, store: Store, cached_by: Mapping[str, JsonValue] | None
) -> Iterator[Path | Failure]:
    """Yield the folder that `request` fills; `cached_by` makes it available to later runs."""
    if cached_by is None:
        folder = Path(tempfile.mkdtemp(prefix="bench-inputs-"))
        try:
            failure = run_prepare(request, folder)
            yield failure if failure is not None else folder
        finally:
            leave(folder)
    else:
        yield _fill_cached(request, store, cached_by)


def folder_name(entry: str, cached_by: Mapping[str, JsonValue]) -> str:
    """Return the name of a cached folder: the entry, and a digest of all inputs."""
    decides = {
        "entry": entry,
        "cached_by": dict(cached_by),
        "sources": _digest_of_sources(entry),
        "stands_on": {name: _version(name) for name in _STANDS_ON},
    }
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return f"{entry.rpartition('.')[2].replace(':', '-')}-{digest[:16]}"


def _fill_cached(
    request: Request, store: Store, cached_by: Mapping[str, JsonValue]
) -> Path | Failure:
    path = store.folder / folder_name(request.entry, cached_by)
    if store.has(path):
        return path
    store.folder.mkdir(parents=True, exist_ok=True)
    # Filled beside its place and moved there whole, so an interrupted run leaves no half of it.
    with tempfile.TemporaryDirectory(dir=store.folder, ignore_cleanup_errors=True) as beside:
        filled = Path(beside) / "filled"
        filled.mkdir()
        failure = run_prepare(request, filled)
        if failure is not None:
            return failure
        shutil.rmtree(path, ignore_errors=True)
        filled.replace(path)
    store.filled.add(path)
    return path


def _digest_of_sources(entry: str) -> str:
    files = [file for file in (_HERE / "generators").rglob("*") if file.suffix != ".pyc"]
    module = importlib.util.find_spec(entry.partition(":")[0])
    if module is not None and module.origin is not None:
        files.append(Path(module.origin))
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
