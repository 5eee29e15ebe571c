"""`cluster.yaml`: what it declares, read strictly with every mistake at its line and column."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.resources import (
    CLUSTER_SCOPE,
    CONFIG_FILE,
    RESOURCE_NAME,
    BlobAllowList,
    BlobBase,
    BlobScope,
    EmbeddingProfile,
    graph_address,
)
from omnigraph.errors import BadRequest, CompileError, Diagnostic
from omnigraph.language.source import SourceText
from omnigraph.language.yaml_reader import Value, YamlReader
from omnigraph.settings import EmbedProvider
from omnigraph.storage.control_files import normalize_root
from omnigraph.wire.http_protocol import is_graph_id


@dataclass(frozen=True, slots=True)
class FileRef:
    """A path as it was written, and where: `cluster.yaml:7:13`."""

    path: str
    at: str


@dataclass(frozen=True, slots=True)
class QueryDeclaration:
    """Where the queries of a graph are: a folder, or files, which may be named by their query."""

    folder: FileRef | None = None
    files: tuple[FileRef, ...] = ()
    named: Mapping[str, FileRef] | None = None

    def describe(self) -> object:
        """What it means, for the digest."""
        if self.named is not None:
            return {name: ref.path for name, ref in self.named.items()}
        return self.folder.path if self.folder else [ref.path for ref in self.files]


@dataclass(frozen=True, slots=True)
class GraphDeclaration:
    id: str
    at: str
    schema: FileRef | None
    queries: QueryDeclaration | None = None
    embedding_provider: str | None = None
    """The name of a provider."""
    external_blobs: BlobAllowList = field(default_factory=BlobAllowList)

    def describe(self) -> object:
        return {
            "schema": self.schema and self.schema.path,
            "queries": self.queries and self.queries.describe(),
            "embedding_provider": self.embedding_provider,
            "external_blobs": self.external_blobs,
        }


@dataclass(frozen=True, slots=True)
class PolicyDeclaration:
    name: str
    at: str
    file: FileRef | None
    applies_to: tuple[str, ...]
    """`cluster`, or addresses of graphs."""

    def describe(self) -> object:
        return {"file": self.file and self.file.path, "applies_to": self.applies_to}


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Everything that was declared and could be understood."""

    name: str | None = None
    storage: str | None = None
    locks_state: bool = True
    providers: Mapping[str, EmbeddingProfile] = field(default_factory=dict)
    graphs: Mapping[str, GraphDeclaration] = field(default_factory=dict)
    policies: Mapping[str, PolicyDeclaration] = field(default_factory=dict)

    def describe(self) -> object:
        """What it means, without places and comments, for the digest."""
        return {
            "version": 1,
            "name": self.name,
            "storage": self.storage,
            "lock": self.locks_state,
            "providers": dict(self.providers),
            "graphs": {id: one.describe() for id, one in self.graphs.items()},
            "policies": {name: one.describe() for name, one in self.policies.items()},
        }


One = TypeVar("One")

_YAML_CODES = {"B103": "duplicate_yaml_key", "B105": "unsupported_cluster_config_version"}
"""What mistakes of YAML are called here; the others are `invalid_cluster_yaml`."""
_GRAPH_RULE = (
    "a graph: use 1 to 64 letters, digits and '-', and none of graphs, healthz, openapi, policies"
)
_RULE = "a resource: use letters, digits, '_' and '-', and start with a letter or '_'"


class ConfigValues:
    """The values of one `cluster.yaml`, and the mistakes in it so far."""

    def __init__(self, source: SourceText) -> None:
        self.yaml = YamlReader(source, "cluster")

    def add(self, code: str, message: str, value: Value, hint: str | None = None) -> None:
        self.yaml.add(code, message, value.span, hint=hint)

    def find_place(self, value: Value) -> str:
        """Where a value was written, as messages name it."""
        line, column = self.yaml.source.line_and_column(value.span.start)
        return f"{CONFIG_FILE}:{line}:{column}"

    def read_file(self, value: Value) -> FileRef | None:
        path = self.yaml.read_name(value)
        return None if path is None else FileRef(path, self.find_place(value))

    def read_resources(
        self, value: Value, read: Callable[[str, Value, Value], One], *, are_graphs: bool = False
    ) -> dict[str, One]:
        """The members of a mapping of resources; `read` gets the name, the key and the value."""
        found = {}
        for name, (key, member) in self.yaml.read_entries(value).items():
            if not (is_graph_id(name) if are_graphs else RESOURCE_NAME.fullmatch(name)):
                rule = _GRAPH_RULE if are_graphs else _RULE
                self.add("invalid_resource_id", f"'{name}' cannot be the id of {rule}", key)
            else:
                found[name] = read(name, key, member)
        return found

    def report_to(self, report: ClusterReport) -> None:
        """Hand the mistakes over in the order of the text."""
        for one in sorted(self.yaml.problems.found, key=lambda found: found.start):
            is_of_yaml = one.code[0] == "B" and one.code[1:].isdigit()
            code = _YAML_CODES.get(one.code, "invalid_cluster_yaml") if is_of_yaml else one.code
            report.add(code, show_place(one), describe_mistake(one))


def show_place(found: Diagnostic) -> str:
    """Where a mistake of a text is, as in `library.pg:3:7`."""
    return f"{found.source}:{found.line}:{found.column}"


def describe_mistake(found: Diagnostic) -> str:
    """A mistake of a text with its hint."""
    return f"{found.message}; {found.hint}" if found.hint else found.message


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


_GRAPH_KEYS = ("queries", "embedding_provider", "external_blobs")
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
        members = self._yaml.read_members(what, ("schema",), (*_GRAPH_KEYS, *removed))
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


_PROVIDER_KEYS = ("kind", "provider", "base_url", "model", "api_key")
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_WITHOUT_KEY = (EmbedProvider.MOCK, EmbedProvider.LOCAL)


class ProviderReader:
    def __init__(self, values: ConfigValues) -> None:
        self._values, self._yaml = values, values.yaml

    def read_providers(self, value: Value) -> dict[str, EmbeddingProfile | None]:
        """The providers by name; None stands for one with mistakes."""
        members = self._yaml.read_members(value, (), ("embedding",))
        if "embedding" not in members:
            return {}
        return self._values.read_resources(members["embedding"], self._read_provider)

    def _read_provider(self, name: str, key: Value, value: Value) -> EmbeddingProfile | None:
        what = f"provider '{name}'"
        members = self._yaml.read_members(Value(value.node, what), (), _PROVIDER_KEYS)
        if "kind" in members and "provider" in members:
            message = f"{what} has 'kind' and 'provider', which mean the same"
            self._values.add("invalid_embedding_provider", message, members["provider"])
        texts = {one: self._yaml.read_name(member) for one, member in members.items()}
        kind = self._find_kind(texts.get("kind") or texts.get("provider"))
        if kind is None:
            message = f"{what} has no known kind; use one of {', '.join(EmbedProvider)}"
            where = members.get("kind") or members["provider"]
            self._values.add("invalid_embedding_provider", message, where)
            return None
        if "api_key" not in members and kind not in _WITHOUT_KEY:
            message = f"{what} needs 'api_key', as in ${{OPENAI_API_KEY}}"
            self._values.add("embedding_api_key_required", message, key)
        api_key = texts.get("api_key")
        if api_key is not None and not _VARIABLE.fullmatch(api_key):
            # The text may be a key and is not repeated.
            message = "'api_key' must be the name of a variable, as in ${OPENAI_API_KEY}"
            self._values.add("embedding_api_key_inline", message, members["api_key"])
            return None
        return EmbeddingProfile(
            kind=str(kind),
            base_url=texts.get("base_url"),
            model=texts.get("model"),
            api_key=api_key,
        )

    def _find_kind(self, word: str | None) -> EmbedProvider | None:
        if word is None:
            return EmbedProvider.OPENAI_COMPATIBLE
        return EmbedProvider(word) if word in set(EmbedProvider) else None


_GRAPH = "graph."


class PolicyReader:
    def __init__(self, values: ConfigValues, graphs: Collection[str]) -> None:
        self._values, self._yaml, self._graphs = values, values.yaml, graphs
        self._bound: dict[str, str] = {}

    def read_policies(self, value: Value) -> dict[str, PolicyDeclaration]:
        return self._values.read_resources(value, self._read_policy)

    def _read_policy(self, name: str, key: Value, value: Value) -> PolicyDeclaration:
        what = f"policy '{name}'"
        members = self._yaml.read_members(Value(value.node, what), ("file",), ("applies_to",))
        bound: list[tuple[str, Value]] = []
        if "applies_to" in members:
            items = self._yaml.read_items(members["applies_to"], "a graph")
            found = [(self._read_scope(one), one) for one in items]
            bound = [(scope, one) for scope, one in found if scope is not None]
        if "applies_to" not in members or not self._yaml.has_items(members["applies_to"]):
            message = f"{what} needs 'applies_to': the cluster, or graphs"
            self._values.add("policy_missing_applies_to", message, key)
        scopes = {scope for scope, _ in bound}
        if CLUSTER_SCOPE in scopes and len(scopes) > 1:
            message = f"{what} is bound to the cluster and to graphs; use a bundle for each"
            self._values.add("policy_mixed_binding_kinds", message, members["applies_to"])
        for scope, item in bound:
            self._bind(name, scope, item)
        return PolicyDeclaration(
            name,
            self._values.find_place(key),
            self._values.read_file(members["file"]) if "file" in members else None,
            tuple(sorted(scopes)),
        )

    def _bind(self, name: str, scope: str, item: Value) -> None:
        other = self._bound.setdefault(scope, name)
        if other != name:
            message = f"'{scope}' is bound to policy '{other}' already"
            self._values.add("duplicate_policy_binding", message, item)

    def _read_scope(self, value: Value) -> str | None:
        text = self._yaml.read_name(value)
        if text is None or text == CLUSTER_SCOPE:
            return text
        graph_id = text.removeprefix(_GRAPH)
        if "." in graph_id:
            message = f"'{text}' is neither a graph nor the cluster"
            self._values.add("wrong_kind_reference", message, value)
            return None
        if graph_id not in self._graphs:
            self._values.add("dangling_graph_reference", f"there is no graph '{graph_id}'", value)
            return None
        return graph_address(graph_id)


VERSION = 1
_TOP_KEYS = ("metadata", "storage", "state", "providers", "graphs", "policies")
_RESERVED = ("apply", "env_file", "pipelines", "embeddings", "ui", "aliases", "bindings")
_BACKEND = "cluster"


def read_cluster_config(folder: Path, report: ClusterReport) -> ClusterConfig:
    """What a folder declares; what could not be understood is in the report and left out.

    Raises:
        ClusterError: there is no such folder, or its file cannot be read at all.
    """
    return _ConfigReader(_read_source(folder), report).read_config()


def read_storage_root(folder: Path) -> str:
    """The storage root of a folder with a `cluster.yaml`, whatever else is wrong with that.

    Raises:
        ClusterError: the file cannot be read, or does not say where the storage is.
    """
    report = ClusterReport()
    storage = _ConfigReader(_read_source(folder), report).read_only_storage()
    report.raise_if_errors()
    return choose_root(folder, storage)


def choose_root(folder: Path, storage: str | None) -> str:
    """Where a cluster is kept: in the folder itself, unless it says otherwise."""
    if storage is None:
        return normalize_root(str(folder))
    return normalize_root(storage if "://" in storage else str(folder / storage))


def _read_source(folder: Path) -> SourceText:
    if not folder.is_dir():
        raise refuse("config_dir_not_found", str(folder), "there is no such folder")
    try:
        data = (folder / CONFIG_FILE).read_bytes()
        return SourceText.from_bytes(data, CONFIG_FILE)
    except FileNotFoundError:
        message = f"the folder has no {CONFIG_FILE}"
        raise refuse("config_dir_not_found", str(folder), message) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise refuse("cluster_config_read_error", CONFIG_FILE, reason) from None
    except CompileError as error:
        found = error.diagnostics[0]
        raise refuse("cluster_config_read_error", show_place(found), found.message) from None


class _ConfigReader:
    def __init__(self, source: SourceText, report: ClusterReport) -> None:
        self._values, self._report = ConfigValues(source), report
        self._yaml = self._values.yaml

    def read_config(self) -> ClusterConfig:
        document = self._yaml.read(CONFIG_FILE)
        config = ClusterConfig() if document is None else self._read_document(document)
        self._values.report_to(self._report)
        return config

    def read_only_storage(self) -> str | None:
        document = self._yaml.read(CONFIG_FILE)
        found = None if document is None else self._yaml.read_entries(document).get("storage")
        storage = None if found is None else self._read_storage(found[1])
        self._values.report_to(self._report)
        return storage

    def _read_document(self, document: Value) -> ClusterConfig:
        reserved = self._refuse_reserved(document)
        top = self._yaml.read_members(document, ("version",), (*_TOP_KEYS, *reserved))
        if "version" in top:
            self._yaml.check_version(top["version"], VERSION)
        name = self._read_metadata(top["metadata"]) if "metadata" in top else None
        storage = self._read_storage(top["storage"]) if "storage" in top else None
        locks_state = self._read_state(top["state"]) if "state" in top else True
        reader = ProviderReader(self._values)
        providers = reader.read_providers(top["providers"]) if "providers" in top else {}
        graph_reader = GraphReader(self._values, providers.keys())
        graphs = graph_reader.read_graphs(top["graphs"]) if "graphs" in top else {}
        policy_reader = PolicyReader(self._values, graphs.keys())
        policies = policy_reader.read_policies(top["policies"]) if "policies" in top else {}
        known = {name: profile for name, profile in providers.items() if profile is not None}
        return ClusterConfig(name, storage, locks_state, known, graphs, policies)

    def _refuse_reserved(self, document: Value) -> tuple[str, ...]:
        """Report reserved keys; gives them, so that they are not unknown ones as well."""
        entries = self._yaml.read_entries(document) if self._yaml.is_mapping(document) else {}
        found = tuple(name for name in _RESERVED if name in entries)
        for name in found:
            self._values.add("future_phase_field", f"'{name}' is reserved", entries[name][0])
        return found

    def _read_metadata(self, value: Value) -> str | None:
        members = self._yaml.read_members(value, (), ("name",))
        name = self._yaml.read_text(members["name"]) if "name" in members else None
        if name == "":
            self._values.add("empty_metadata_name", "the name is blank", members["name"])
        return name or None

    def _read_storage(self, value: Value) -> str | None:
        uri = self._yaml.read_text(value)
        if uri is None:
            return None
        try:
            normalize_root(uri)
        except BadRequest as error:
            self._values.add("invalid_storage_root", error.message, value)
            return None
        return uri.rstrip("/") or "/"

    def _read_state(self, value: Value) -> bool:
        members = self._yaml.read_members(value, (), ("backend", "lock"))
        backend = self._yaml.read_text(members["backend"]) if "backend" in members else _BACKEND
        if backend is not None and backend != _BACKEND:
            message = f"no such backend '{backend}'; use {_BACKEND}"
            self._values.add("unsupported_state_backend", message, members["backend"])
        locks = self._yaml.read_flag(members["lock"]) if "lock" in members else True
        if locks is False:
            message = "no lock is taken; of two operators at once, one finds its work refused"
            place = self._values.find_place(members["lock"])
            self._report.add("state_lock_disabled", place, message)
        return locks is not False
