"""Data in a bucket, fetched to this machine for as long as it is read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import has_magic
from pathlib import Path

from omnigraph.errors import BadRequest
from omnigraph.interchange.source_tables import SourceGraph
from omnigraph.pipeline.inputs import list_bucket_files, open_filesystem, store_path
from omnigraph.settings import AwsSettings

BUCKETS = "s3://"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an address of a bucket names, as files and folders of this machine."""

    paths: tuple[Path, ...]
    folder: str

    def rename(self, found: SourceGraph) -> SourceGraph:
        """The same tables under the addresses they came from."""
        tables = (replace(one, origin=self.name_address(one.origin)) for one in found.tables)
        return SourceGraph(tuple(tables), tuple(map(self.name_address, found.lost)))

    def name_address(self, text: str) -> str:
        return text.replace(f"{self.folder}/", BUCKETS)


@contextmanager
def fetch_files(place: str, aws: AwsSettings) -> Iterator[Fetched]:
    """A file, a folder or a pattern of a bucket; mistakes in its files name their addresses.

    Raises:
        BadRequest: there is no such file, or it cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="omnigraph-fetch-") as name:
        folder = Path(name).resolve()
        try:
            addresses = list_bucket_files(place, aws)
            local = [_fetch(address, folder, aws) for address in addresses]
        except OSError as error:
            raise BadRequest(f"cannot read {place}: {error.strerror or error}") from error
        if not has_magic(place):
            local = [folder / store_path(place)]
        fetched = Fetched(tuple(local), str(folder))
        try:
            yield fetched
        except BadRequest as refused:
            told = fetched.name_address(refused.message)
            if told == refused.message:
                raise
            raise BadRequest(told) from refused


def _fetch(address: str, folder: Path, aws: AwsSettings) -> Path:
    import pyarrow.fs as fs  # noqa: PLC0415 - only for data in a bucket

    target = folder / store_path(address)
    if not target.resolve().is_relative_to(folder):
        raise BadRequest(f"{address}: a name with '..' cannot be fetched")
    target.parent.mkdir(parents=True, exist_ok=True)
    store = open_filesystem(address, aws)
    fs.copy_files(store_path(address), str(target), store, fs.LocalFileSystem())
    return target
