"""The graphs of `cluster.yaml`."""

from __future__ import annotations

from collections.abc import Collection

from omnigraph.cluster.blob_bases import BlobBaseReader
from omnigraph.cluster.cluster_config import FileRef, GraphDeclaration, QueryDeclaration
from omnigraph.cluster.config_values import ConfigValues
from omnigraph.cluster.resource_settings import BlobAllowList
from omnigraph.language.yaml_reader import Value

_KEYS = ("queries", "embedding_provider", "external_blobs")
_STREAMING = "streaming"
_PROVIDER = "provider.embedding."


class GraphReader:
    def __init__(self, values: ConfigValues, providers: Collection[str]) -> None:
        self._values, self._yaml = values, values.yaml
        self._providers = providers
        self._blobs = BlobBaseReader(values)

    def read_graphs(self, value: Value) -> dict[str, GraphDeclaration]:
        return self._values.read_resources(value, self._read_graph, are_graphs=True)

    def _read_graph(self, graph_id: str, key: Value, value: Value) -> GraphDeclaration:
        what = Value(value.node, f"graph '{graph_id}'")
        entries = self._yaml.read_entries(what) if self._yaml.is_mapping(what) else {}
        removed = (_STREAMING,) if _STREAMING in entries else ()
        if removed:
            message = "graphs have no 'streaming' any more; remove it"
            self._values.add("removed_streaming_declaration", message, entries[_STREAMING][0])
        members = self._yaml.read_members(what, ("schema",), (*_KEYS, *removed))
        provider, blobs = members.get("embedding_provider"), members.get("external_blobs")
        return GraphDeclaration(
            graph_id,
            self._values.find_place(key),
            self._values.read_file(members["schema"]) if "schema" in members else None,
            self._read_queries(members["queries"]) if "queries" in members else None,
            None if provider is None else self._read_provider_reference(provider),
            BlobAllowList() if blobs is None else self._blobs.read_allow_list(blobs),
        )

    def _read_queries(self, value: Value) -> QueryDeclaration:
        if self._yaml.is_text(value):
            return QueryDeclaration(folder=self._values.read_file(value))
        if self._yaml.is_list(value):
            items = self._yaml.read_items(value, "a query file")
            files = [self._values.read_file(one) for one in items]
            return QueryDeclaration(files=tuple(one for one in files if one is not None))
        named: dict[str, FileRef] = {}
        for name, (_, member) in self._yaml.read_entries(value).items():
            members = self._yaml.read_members(Value(member.node, f"query '{name}'"), ("file",))
            file = self._values.read_file(members["file"]) if "file" in members else None
            if file is not None:
                named[name] = file
        return QueryDeclaration(named=named)

    def _read_provider_reference(self, value: Value) -> str | None:
        text = self._yaml.read_name(value)
        if text is None:
            return None
        name = text.removeprefix(_PROVIDER)
        if "." in name:
            message = f"'{text}' is not an embedding provider; write NAME or {_PROVIDER}NAME"
            self._values.add("wrong_kind_reference", message, value)
            return None
        if name not in self._providers:
            message = f"there is no embedding provider '{name}'"
            self._values.add("dangling_embedding_provider_reference", message, value)
            return None
        return name
