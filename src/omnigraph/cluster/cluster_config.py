"""`cluster.yaml`: its declarations, read strictly, with every mistake at its line and column."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from omnigraph.cluster.cluster_diagnostics import (
    ClusterReport,
    locate_mistake,
    refuse,
    refusing_text,
)
from omnigraph.cluster.cluster_files import (
    CLUSTER_SCOPE,
    CONFIG_FILE,
    RESOURCE_NAME,
    graph_address,
)
from omnigraph.cluster.cluster_state import (
    BlobAllowList,
    BlobBase,
    BlobScope,
    EmbeddingProfile,
)
from omnigraph.errors import BadRequest
from omnigraph.language.source import SourceText
from omnigraph.language.yaml_reader import Value, YamlReader
from omnigraph.settings import EmbedProvider
from omnigraph.storage.objects import normalize_root
from omnigraph.wire.http_protocol import is_graph_id


class Located(str):
    """A text of the configuration with its position, as in `cluster.yaml:7:13`."""

    __slots__ = ("at",)
    at: str

    def __new__(cls, text: str, at: str) -> Located:
        found = super().__new__(cls, text)
        found.at = at
        return found


Queries = Located | tuple[Located, ...] | dict[str, Located]
"""The query files of a graph: a folder, files, or files by the names of their queries."""


class GraphDeclaration(msgspec.Struct, frozen=True):
    schema: Located | None
    queries: Queries | None = None
    embedding_provider: str | None = None
    """The name of a provider."""
    external_blobs: BlobAllowList = BlobAllowList()


class PolicyDeclaration(msgspec.Struct, frozen=True):
    file: Located | None
    applies_to: tuple[str, ...]
    """`cluster`, or addresses of graphs."""


class ClusterConfig(msgspec.Struct, frozen=True):
    """All valid declarations. Its encoding has no positions and no comments: it is digested."""

    name: str | None = None
    storage: str | None = None
    lock: bool = True
    providers: Mapping[Located, EmbeddingProfile] = {}
    graphs: Mapping[Located, GraphDeclaration] = {}
    policies: Mapping[Located, PolicyDeclaration] = {}
    version: int = 1


One = TypeVar("One")

VERSION = 1
_TOP_KEYS = ("metadata", "storage", "state", "providers", "graphs", "policies")
_RESERVED = ("apply", "env_file", "pipelines", "embeddings", "ui", "aliases", "bindings")
_GRAPH_KEYS = ("queries", "embedding_provider", "external_blobs")
_PROVIDER_KEYS = ("kind", "provider", "base_url", "model", "api_key")
_BACKEND = "cluster"
_STREAMING = "streaming"
_GRAPH = "graph."
_PROVIDER = "provider.embedding."
_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_WITHOUT_KEY = (EmbedProvider.MOCK, EmbedProvider.LOCAL)
_BLOB_SCHEMES = ("s3", "https", "http", "gs", "az", "file")
_YAML_CODES = {"B103": "duplicate_yaml_key", "B105": "unsupported_cluster_config_version"}
"""The codes of some mistakes of YAML; the others are `invalid_cluster_yaml`."""
_GRAPH_RULE = (
    "a graph: use 1 to 64 letters, digits and '-', and none of graphs, healthz, openapi, policies"
)
_RULE = "a resource: use letters, digits, '_' and '-', and start with a letter or '_'"


def read_cluster_config(folder: Path, report: ClusterReport) -> ClusterConfig:
    """Read the declarations of a folder; invalid ones are reported and omitted.

    Raises:
        ClusterError: there is no such folder, or its file cannot be read at all.
    """
    return _ConfigReader(_read_source(folder), report).read_config()


def read_storage_root(folder: Path) -> str:
    """Read the storage root from a `cluster.yaml`, whatever other mistakes it has.

    Raises:
        ClusterError: the file cannot be read, or its storage root is invalid.
    """
    report = ClusterReport()
    storage = _ConfigReader(_read_source(folder), report).read_only_storage()
    report.raise_if_errors()
    return choose_root(folder, storage)


def choose_root(folder: Path, storage: str | None) -> str:
    """Return the storage root: the folder itself, unless another is declared."""
    if storage is None:
        return normalize_root(str(folder))
    return normalize_root(storage if "://" in storage else str(folder / storage))


def _read_source(folder: Path) -> SourceText:
    if not folder.is_dir():
        raise refuse("config_dir_not_found", str(folder), "there is no such folder")
    try:
        data = (folder / CONFIG_FILE).read_bytes()
    except FileNotFoundError:
        message = f"the folder has no {CONFIG_FILE}"
        raise refuse("config_dir_not_found", str(folder), message) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise refuse("cluster_config_read_error", CONFIG_FILE, reason) from None
    with refusing_text("cluster_config_read_error"):
        return SourceText.from_bytes(data, CONFIG_FILE)


class _ConfigReader:
    """Reads one `cluster.yaml`, and collects its mistakes."""

    def __init__(self, source: SourceText, report: ClusterReport) -> None:
        self._yaml, self._report = YamlReader(source, "cluster"), report
        self._providers: Mapping[Located, EmbeddingProfile | None] = {}
        """The declared providers; None for one with mistakes."""
        self._graphs: Mapping[Located, GraphDeclaration] = {}
        self._bound: dict[str, str] = {}
        """The policy of each scope."""

    def read_config(self) -> ClusterConfig:
        document = self._yaml.read(CONFIG_FILE)
        config = ClusterConfig() if document is None else self._read_document(document)
        self._report_mistakes()
        return config

    def read_only_storage(self) -> str | None:
        document = self._yaml.read(CONFIG_FILE)
        found = None if document is None else self._yaml.read_entries(document).get("storage")
        storage = None if found is None else self._read_storage(found[1])
        self._report_mistakes()
        return storage

    def _report_mistakes(self) -> None:
        """Report the mistakes in the order of the text."""
        for one in sorted(self._yaml.problems.found, key=lambda found: found.start):
            is_of_yaml = one.code[0] == "B" and one.code[1:].isdigit()
            code = _YAML_CODES.get(one.code, "invalid_cluster_yaml") if is_of_yaml else one.code
            self._report.extend([locate_mistake(code, one)])

    # --- values, of which each may be absent ---

    def _read_members(
        self, value: Value | None, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Value]:
        return {} if value is None else self._yaml.read_members(value, required, optional)

    def _read_name(self, value: Value | None) -> str | None:
        return None if value is None else self._yaml.read_name(value)

    def _read_text(self, value: Value | None) -> str | None:
        return None if value is None else self._yaml.read_text(value)

    def _read_file(self, value: Value | None) -> Located | None:
        path = self._read_name(value)
        return None if value is None or path is None else self._locate(path, value)

    def _read_resources(
        self,
        value: Value | None,
        read: Callable[[str, Value, Value], One],
        *,
        are_graphs: bool = False,
    ) -> dict[Located, One]:
        """Read a mapping of resources; `read` gets the name, the key and the value of each."""
        found = {}
        entries = {} if value is None else self._yaml.read_entries(value)
        for name, (key, member) in entries.items():
            if not (is_graph_id(name) if are_graphs else RESOURCE_NAME.fullmatch(name)):
                rule = _GRAPH_RULE if are_graphs else _RULE
                self._add("invalid_resource_id", f"'{name}' cannot be the id of {rule}", key)
            else:
                found[self._locate(name, key)] = read(name, key, member)
        return found

    def _add(self, code: str, message: str, value: Value) -> None:
        self._yaml.add(code, message, value.span)

    def _locate(self, text: str, value: Value) -> Located:
        line, column = self._yaml.source.line_and_column(value.span.start)
        return Located(text, f"{CONFIG_FILE}:{line}:{column}")

    def _refuse_keys(
        self, value: Value, keys: Sequence[str], code: str, message: str
    ) -> tuple[str, ...]:
        """Report refused keys; return those found, so that they are not unknown keys as well."""
        entries = self._yaml.read_entries(value) if self._yaml.is_mapping(value) else {}
        found = tuple(name for name in keys if name in entries)
        for name in found:
            self._add(code, message.format(name), entries[name][0])
        return found

    # --- the document ---

    def _read_document(self, document: Value) -> ClusterConfig:
        reserved = self._refuse_keys(document, _RESERVED, "future_phase_field", "'{}' is reserved")
        top = self._read_members(document, ("version",), (*_TOP_KEYS, *reserved))
        if "version" in top:
            self._yaml.check_version(top["version"], VERSION)
        providers = self._read_members(top.get("providers"), (), ("embedding",)).get("embedding")
        self._providers = self._read_resources(providers, self._read_provider)
        self._graphs = self._read_resources(top.get("graphs"), self._read_graph, are_graphs=True)
        return ClusterConfig(
            name=self._read_metadata(top.get("metadata")),
            storage=self._read_storage(top.get("storage")),
            lock=self._read_state(top.get("state")),
            providers={name: one for name, one in self._providers.items() if one is not None},
            graphs=self._graphs,
            policies=self._read_resources(top.get("policies"), self._read_policy),
        )

    def _read_metadata(self, value: Value | None) -> str | None:
        members = self._read_members(value, (), ("name",))
        name = self._read_text(members.get("name"))
        if name == "":
            self._add("empty_metadata_name", "the name is blank", members["name"])
        return name or None

    def _read_storage(self, value: Value | None) -> str | None:
        uri = self._read_text(value)
        if value is None or uri is None:
            return None
        try:
            normalize_root(uri)
        except BadRequest as error:
            self._add("invalid_storage_root", error.message, value)
            return None
        return uri.rstrip("/") or "/"

    def _read_state(self, value: Value | None) -> bool:
        members = self._read_members(value, (), ("backend", "lock"))
        backend = self._read_text(members.get("backend"))
        if backend not in (None, _BACKEND):
            message = f"no such backend '{backend}'; use {_BACKEND}"
            self._add("unsupported_state_backend", message, members["backend"])
        if "lock" not in members or self._yaml.read_flag(members["lock"]) is not False:
            return True
        message = "no lock is taken; of two operators at once, one finds its work refused"
        self._report.add("state_lock_disabled", self._locate("lock", members["lock"]).at, message)
        return False

    # --- embedding providers ---

    def _read_provider(self, name: str, key: Value, value: Value) -> EmbeddingProfile | None:
        what = f"provider '{name}'"
        members = self._read_members(Value(value.node, what), (), _PROVIDER_KEYS)
        if "kind" in members and "provider" in members:
            message = f"{what} has 'kind' and 'provider', which mean the same"
            self._add("invalid_embedding_provider", message, members["provider"])
        texts = {one: self._read_name(member) for one, member in members.items()}
        kind = texts.get("kind") or texts.get("provider") or EmbedProvider.OPENAI_COMPATIBLE
        if kind not in set(EmbedProvider):
            message = f"{what} has no known kind; use one of {', '.join(EmbedProvider)}"
            where = members.get("kind") or members["provider"]
            self._add("invalid_embedding_provider", message, where)
            return None
        if "api_key" not in members and kind not in _WITHOUT_KEY:
            message = f"{what} needs 'api_key', as in ${{OPENAI_API_KEY}}"
            self._add("embedding_api_key_required", message, key)
        api_key = texts.get("api_key")
        if api_key is not None and not _VARIABLE.fullmatch(api_key):
            # The text may be a key and is not repeated.
            message = "'api_key' must be the name of a variable, as in ${OPENAI_API_KEY}"
            self._add("embedding_api_key_inline", message, members["api_key"])
            return None
        return EmbeddingProfile(
            kind=str(kind),
            base_url=texts.get("base_url"),
            model=texts.get("model"),
            api_key=api_key,
        )

    # --- graphs ---

    def _read_graph(self, graph_id: str, _: Value, value: Value) -> GraphDeclaration:
        what = Value(value.node, f"graph '{graph_id}'")
        message = "graphs have no '{}' any more; remove it"
        removed = self._refuse_keys(what, (_STREAMING,), "removed_streaming_declaration", message)
        members = self._read_members(what, ("schema",), (*_GRAPH_KEYS, *removed))
        return GraphDeclaration(
            schema=self._read_file(members.get("schema")),
            queries=self._read_queries(members["queries"]) if "queries" in members else None,
            embedding_provider=self._read_reference(members.get("embedding_provider")),
            external_blobs=self._read_allow_list(members.get("external_blobs")),
        )

    def _read_queries(self, value: Value) -> Queries:
        if self._yaml.is_text(value):
            return self._read_file(value) or ()
        if self._yaml.is_list(value):
            items = self._yaml.read_items(value, "a query file")
            return tuple(one for one in map(self._read_file, items) if one is not None)
        named: dict[str, Located] = {}
        for name, (_, member) in self._yaml.read_entries(value).items():
            members = self._read_members(Value(member.node, f"query '{name}'"), ("file",))
            file = self._read_file(members.get("file"))
            if file is not None:
                named[name] = file
        return named

    def _read_reference(self, value: Value | None) -> str | None:
        """Read the name of an embedding provider."""
        text = self._read_name(value)
        if value is None or text is None:
            return None
        name = text.removeprefix(_PROVIDER)
        if name in self._providers:
            return name
        if "." in name:
            message = f"'{text}' is not an embedding provider; write NAME or {_PROVIDER}NAME"
            self._add("wrong_kind_reference", message, value)
        else:
            message = f"there is no embedding provider '{name}'"
            self._add("dangling_embedding_provider_reference", message, value)
        return None

    def _read_allow_list(self, value: Value | None) -> BlobAllowList:
        allow = self._read_members(value, ("allow",)).get("allow")
        found: list[BlobBase] = []
        for item in () if allow is None else self._yaml.read_items(allow, "a base"):
            base = self._read_blob_base(item)
            if base is None:
                continue
            for other in (one.uri for one in found):
                if other.startswith(base.uri) or base.uri.startswith(other):
                    message = f"base '{base.uri}' overlaps with '{other}'"
                    self._add("invalid_external_blob_policy", message, item)
                    break
            found.append(base)
        return BlobAllowList(tuple(sorted(found, key=lambda one: one.uri)))

    def _read_blob_base(self, value: Value) -> BlobBase | None:
        members = self._read_members(value, ("base", "scope"))
        uri, scope = self._read_name(members.get("base")), self._read_name(members.get("scope"))
        if uri is None or scope is None:
            return None
        problem = _find_base_problem(uri)
        if problem is not None:
            # The address may hold credentials and is not repeated.
            self._add("invalid_external_blob_base", f"the base {problem}", members["base"])
            return None
        if scope not in set(BlobScope):
            problem = f"no such scope '{scope}'; use one of {', '.join(BlobScope)}"
        elif uri.startswith("file:") and scope == BlobScope.SERVER_SAFE:
            problem = "file:// is not safe for servers; use scope embedded_only"
        else:
            return BlobBase(uri, BlobScope(scope))
        self._add("invalid_external_blob_policy", problem, members["scope"])
        return None

    # --- policies ---

    def _read_policy(self, name: str, key: Value, value: Value) -> PolicyDeclaration:
        what = f"policy '{name}'"
        members = self._read_members(Value(value.node, what), ("file",), ("applies_to",))
        bound = members.get("applies_to")
        if bound is None or not self._yaml.has_items(bound):
            message = f"{what} needs 'applies_to': the cluster, or graphs"
            self._add("policy_missing_applies_to", message, key)
        scopes: set[str] = set()
        for item in () if bound is None else self._yaml.read_items(bound, "a graph"):
            scope = self._read_scope(item)
            if scope is None:
                continue
            scopes.add(scope)
            other = self._bound.setdefault(scope, name)
            if other != name:
                message = f"'{scope}' is bound to policy '{other}' already"
                self._add("duplicate_policy_binding", message, item)
        if CLUSTER_SCOPE in scopes and len(scopes) > 1:
            message = f"{what} is bound to the cluster and to graphs; use a bundle for each"
            self._add("policy_mixed_binding_kinds", message, members["applies_to"])
        return PolicyDeclaration(self._read_file(members.get("file")), tuple(sorted(scopes)))

    def _read_scope(self, value: Value) -> str | None:
        text = self._read_name(value)
        if text is None or text == CLUSTER_SCOPE:
            return text
        graph_id = text.removeprefix(_GRAPH)
        if graph_id in self._graphs:
            return graph_address(graph_id)
        if "." in graph_id:
            message = f"'{text}' is neither a graph nor the cluster"
            self._add("wrong_kind_reference", message, value)
        else:
            self._add("dangling_graph_reference", f"there is no graph '{graph_id}'", value)
        return None


def _find_base_problem(uri: str) -> str | None:
    """Return the reason why an address cannot be a base of external blobs."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "is not an address"
    path = parts.path or "/"
    is_normal = "//" not in path and posixpath.normpath(path).rstrip("/") == path.rstrip("/")
    rules = (
        (parts.scheme in _BLOB_SCHEMES, f"be an absolute address of {', '.join(_BLOB_SCHEMES)}"),
        (parts.username is None and parts.password is None, "not hold credentials"),
        (not {"?", "#"} & set(uri), "not have a query or a fragment"),
        (parts.scheme == "file" or bool(parts.netloc), "name a host or a bucket"),
        (path.endswith("/"), "end with '/'"),
        (is_normal, "be normalised: without '.', '..' and '//'"),
    )
    broken = (rule for is_kept, rule in rules if not is_kept)
    return next((f"must {rule}" for rule in broken), None)
