"""Addresses of graph roots: which are understood, and one text for each root."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadRequest

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """A folder."""

    path: Path

    @property
    def identity(self) -> str:
        return resolve_local_identity(self.path)


@dataclass(frozen=True, slots=True)
class S3Address:
    """A bucket, or what is below a prefix of one."""

    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    @property
    def identity(self) -> str:
        return self.uri


Address = LocalAddress | S3Address


def resolve_local_identity(path: Path) -> str:
    """The absolute path, with links resolved as far down as the path exists."""
    return os.path.realpath(path)


def parse_address(uri: str) -> Address:
    """Where a graph root lies.

    Raises:
        BadRequest: the address is not a path, `file://` or `s3://`. Addresses are not repeated in
            full, since people put credentials into them.
    """
    if not uri.strip():
        raise BadRequest("the address of a graph cannot be empty")
    scheme = _SCHEME.match(uri)
    match scheme.group(1).lower() if scheme else None:
        case None:
            return LocalAddress(Path(uri).expanduser().absolute())
        case "file":
            return _parse_file(uri)
        case "s3":
            return _parse_s3(uri)
        case "http" | "https" as web:
            raise BadRequest(
                f"{web}:// names a server, and this works on storage directly: give a path, "
                "a file:// or an s3:// address, or name the server with --server"
            )
        case other:
            raise BadRequest(f"{other}:// is not supported: give a path, file:// or s3://")


def _parse_file(uri: str) -> LocalAddress:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise BadRequest("a file:// address needs an absolute path, as in file:///data/graph")
    if not parts.path or parts.query or parts.fragment:
        raise BadRequest("a file:// address holds a path and nothing else")
    return LocalAddress(Path(unquote(parts.path)))


def _parse_s3(uri: str) -> S3Address:
    bucket, _, key = uri[len("s3://") :].partition("/")
    if "@" in bucket:
        raise BadRequest("an s3:// address must not hold credentials; set AWS_ACCESS_KEY_ID")
    if not _BUCKET.fullmatch(bucket):
        raise BadRequest("an s3:// address needs a bucket, as in s3://bucket/graph")
    segments = [segment for segment in key.split("/") if segment]
    if {".", ".."} & set(segments) or any(c in key for c in "?#\\"):
        raise BadRequest("an s3:// address must not hold '.', '..', '?', '#' or '\\'")
    return S3Address(bucket, "/".join(segments))
