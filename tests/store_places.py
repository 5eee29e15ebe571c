"""The place of a test's graph: a folder, or a prefix of a bucket that is used like one.

What is done with a place is the same for both, so that one test can run on either:

    graph = open_graph(place / "town")
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import omnigraph
from omnigraph.settings import Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import (
    LOCAL_HIDDEN_PREFIX,
    WRITER_LEASE,
    WRITER_LOCK,
    WRITER_QUEUE_LOCK,
)
from s3_server import BUCKET, S3Server

if TYPE_CHECKING:
    from obstore.store import S3Store

    from omnigraph import Graph

LEASE_TERM_S = 4
"""Short, because the successor of a killed writer waits for it; but a busy machine may stall a
writer for a second or two, which then finds its lease too old to continue.
"""
_KEEP_WRITERS_APART = (WRITER_LOCK, WRITER_QUEUE_LOCK, WRITER_LEASE)


@dataclass(frozen=True, slots=True)
class Bucket:
    """A prefix of the bucket of a server."""

    server: S3Server
    uri: str

    @classmethod
    def on(cls, server: S3Server) -> Bucket:
        """An unused prefix."""
        return cls(server, server.new_root())

    def __truediv__(self, name: str) -> Bucket:
        return Bucket(self.server, f"{self.uri}/{name}")

    def __str__(self) -> str:
        return self.uri

    @property
    def prefix(self) -> str:
        return self.uri.removeprefix(f"s3://{BUCKET}/") + "/"

    def client(self) -> S3Store:
        from obstore.store import S3Store  # only tests of buckets need it

        given = self.server.environment
        return S3Store(
            BUCKET,
            endpoint=self.server.endpoint,
            access_key_id=given["AWS_ACCESS_KEY_ID"],
            secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
            region=given["AWS_REGION"],
            client_options={"allow_http": True},
        )

    def objects(self) -> Iterator[tuple[str, object]]:
        """The path of every object below the prefix, and what changes when it is written."""
        for batch in self.client().list(self.prefix):
            for found in batch:
                path = found["path"].removeprefix(self.prefix)
                yield path, (found["size"], found["e_tag"], found["last_modified"])


Place: TypeAlias = Path | Bucket


def environment_of(place: Place) -> dict[str, str]:
    """The variables by which a process reaches the place, and the one a test may have set."""
    chosen = {
        name: os.environ[name]
        for name in (Settings.variable("write_concurrency"),)
        if name in os.environ
    }
    if isinstance(place, Path):
        return chosen
    return chosen | place.server.environment | {"OMNIGRAPH_LEASE_TERM": str(LEASE_TERM_S)}


def settings_of(place: Place) -> Settings:
    return Settings.from_environment(environment_of(place))


def open_graph(place: Place, **options: Any) -> Graph:
    return omnigraph.open(str(place), settings=settings_of(place), **options)


def init_graph(place: Place, schema: str, **options: Any) -> Graph:
    return omnigraph.init(str(place), schema, settings=settings_of(place), **options)


def root_of(place: Place) -> GraphRoot:
    return GraphRoot.at(str(place), settings_of(place))


def copy_graph(template: Place, place: Place) -> None:
    """Copy a graph to another place, file by file."""
    match template, place:
        case Path(), Path():
            shutil.copytree(template, place)
        case Bucket(), Bucket():
            client = place.client()
            for name in files_of(template):
                client.copy(template.prefix + name, place.prefix + name)
        case _:
            raise AssertionError("a copy stays on its side")


def files_of(place: Place) -> Mapping[str, object]:
    """Every file and what changes when it is written, but for those that keep writers apart.

    Nor are temporary files of Lance: one that it could not write may go a moment later.
    """
    found = _files_below(place) if isinstance(place, Path) else place.objects()
    return {path: facts for path, facts in found if not _is_left_out(path)}


def _is_left_out(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith((LOCAL_HIDDEN_PREFIX, ".tmp")) or name in _KEEP_WRITERS_APART


def _files_below(folder: Path) -> Iterator[tuple[str, object]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found = path.stat()
            yield path.relative_to(folder).as_posix(), (found.st_size, found.st_mtime_ns)
