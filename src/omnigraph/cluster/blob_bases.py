"""The places of external blobs that a graph of `cluster.yaml` allows."""

from __future__ import annotations

import posixpath
from urllib.parse import urlsplit

from omnigraph.cluster.config_values import ConfigValues
from omnigraph.cluster.resource_settings import BlobAllowList, BlobBase, BlobScope
from omnigraph.language.yaml_reader import Value

_SCHEMES = ("s3", "https", "http", "gs", "az", "file")


class BlobBaseReader:
    def __init__(self, values: ConfigValues) -> None:
        self._values, self._yaml = values, values.yaml

    def read_allow_list(self, value: Value) -> BlobAllowList:
        members = self._yaml.read_members(value, ("allow",))
        if "allow" not in members:
            return BlobAllowList()
        found: list[BlobBase] = []
        for item in self._yaml.read_items(members["allow"], "a base"):
            base = self._read_base(item)
            if base is None:
                continue
            other = next((one for one in found if _overlap(one.uri, base.uri)), None)
            if other is not None:
                message = f"base '{base.uri}' overlaps with '{other.uri}'"
                self._values.add("invalid_external_blob_policy", message, item)
            found.append(base)
        return BlobAllowList(tuple(sorted(found, key=lambda one: one.uri)))

    def _read_base(self, value: Value) -> BlobBase | None:
        members = self._yaml.read_members(value, ("base", "scope"))
        texts = {name: self._yaml.read_name(one) for name, one in members.items()}
        uri, word = texts.get("base"), texts.get("scope")
        if uri is None or word is None:
            return None
        problem = _find_problem(uri)
        if problem is not None:
            # The address may hold credentials and is not repeated.
            self._values.add("invalid_external_blob_base", f"the base {problem}", members["base"])
            return None
        if word not in set(BlobScope):
            message = f"no such scope '{word}'; use one of {', '.join(BlobScope)}"
            self._values.add("invalid_external_blob_policy", message, members["scope"])
            return None
        if uri.startswith("file:") and word == BlobScope.SERVER_SAFE:
            message = "file:// is not safe for servers; use scope embedded_only"
            self._values.add("invalid_external_blob_policy", message, members["scope"])
            return None
        return BlobBase(uri, BlobScope(word))


def _find_problem(uri: str) -> str | None:
    """What is wrong with a base, if anything is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "is not an address"
    if parts.scheme not in _SCHEMES:
        return f"must be an absolute address of {', '.join(_SCHEMES)}"
    if parts.username is not None or parts.password is not None:
        return "must not hold credentials"
    if parts.query or parts.fragment or "?" in uri or "#" in uri:
        return "must not have a query or a fragment"
    if parts.scheme != "file" and not parts.netloc:
        return "must name a host or a bucket"
    path = parts.path or "/"
    if not path.endswith("/"):
        return "must end with '/'"
    if "//" in path or posixpath.normpath(path).rstrip("/") != path.rstrip("/"):
        return "must be normalised: without '.', '..' and '//'"
    return None


def _overlap(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
