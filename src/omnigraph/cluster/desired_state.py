"""The desired state: the resources of a configuration, read from its files and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.catalog.catalog import Catalog
from omnigraph.cluster.cluster_config import (
    ClusterConfig,
    GraphDeclaration,
    Located,
    PolicyDeclaration,
    Queries,
    read_cluster_config,
)
from omnigraph.cluster.cluster_diagnostics import (
    ClusterReport,
    locate_mistake,
    refuse,
    refusing_text,
)
from omnigraph.cluster.cluster_files import (
    CLUSTER_SCOPE,
    digest_file,
    graph_address,
    policy_address,
    provider_address,
    query_address,
    schema_address,
)
from omnigraph.cluster.cluster_state import (
    ClusterState,
    ResourceRecord,
    digest_config,
    digest_profile,
)
from omnigraph.errors import BadRequest, CompileError
from omnigraph.language.query_ast import QueryDecl
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.compile import compile_catalog
from omnigraph.policy import BundleKind, parse_bundle
from omnigraph.policy.restricted_catalog import ResolvedNames

_QUERY_SUFFIX = ".gq"


@dataclass(frozen=True, slots=True)
class DesiredFile:
    """The content of a file of the configuration, which names it relative to its folder."""

    name: str
    path: Path
    data: bytes

    @property
    def digest(self) -> str:
        return digest_file(self.data)

    @property
    def source(self) -> SourceText:
        return SourceText.from_bytes(self.data, self.name)

    def require_unchanged(self, address: str) -> None:
        """Raise if the file of a resource changed after it was checked and planned."""
        try:
            is_unchanged = digest_file(self.path.read_bytes()) == self.digest
        except OSError:
            is_unchanged = False
        if not is_unchanged:
            message = f"{self.name} changed while it was being applied; apply again"
            raise refuse("resource_content_changed", address, message)


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The resources of a configuration, and the files of those that have one, by address."""

    config: ClusterConfig = field(default_factory=ClusterConfig)
    state: ClusterState = field(default_factory=ClusterState)
    files: Mapping[str, DesiredFile] = field(default_factory=dict)

    def find_schema_digest(self, graph_id: str) -> str | None:
        found = self.files.get(schema_address(graph_id))
        return None if found is None else found.digest


def read_desired(folder: Path, report: ClusterReport) -> DesiredState:
    """Read the desired state of a folder; every mistake is reported.

    Raises:
        ClusterError: its `cluster.yaml` cannot be read at all.
    """
    config = read_cluster_config(folder, report)
    reader = _FileReader(folder, report)
    for name, profile in config.providers.items():
        record = ResourceRecord(digest=digest_profile(profile), embedding_profile=profile)
        reader.state.resources[provider_address(name)] = record
    for graph_id, graph in config.graphs.items():
        reader.read_graph(graph_id, graph)
    for policy_name, policy in config.policies.items():
        reader.read_policy(policy_name, policy)
    reader.state.refresh_digests()
    reader.state.config_digest = digest_config(config, reader.state.digests)
    return DesiredState(config, reader.state, reader.files)


@dataclass
class _FileReader:
    folder: Path
    report: ClusterReport
    state: ClusterState = field(default_factory=ClusterState)
    files: dict[str, DesiredFile] = field(default_factory=dict)
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    """The valid schemas, by graph."""

    def _add(
        self, address: str, file: DesiredFile, applies_to: tuple[str, ...] | None = None
    ) -> None:
        self.files[address] = file
        self.state.resources[address] = ResourceRecord(
            digest=file.digest, source=file.name, applies_to=applies_to
        )

    # --- graphs ---

    def read_graph(self, graph_id: str, graph: GraphDeclaration) -> None:
        schema = self._read_schema(graph_id, graph.schema)
        queries = {} if graph.queries is None else dict(self._read_queries(graph_id, graph.queries))
        if schema is None:
            return
        self._add(schema_address(graph_id), schema)
        for name, file in queries.items():
            self._add(query_address(graph_id, name), file)
        provider, blobs = graph.embedding_provider, graph.external_blobs
        self.state.resources[graph_address(graph_id)] = ResourceRecord(
            digest="",
            embedding_provider=None if provider is None else provider_address(provider),
            external_blob_policy=blobs if blobs.bases else None,
        )

    def _read_schema(self, graph_id: str, ref: Located | None) -> DesiredFile | None:
        file = None if ref is None else self._read_file(ref, "schema_file_missing")
        if file is None:
            return None
        try:
            self.catalogs[graph_id] = compile_catalog(file.source)
        except CompileError as error:
            for one in error.diagnostics:
                is_syntax = one.stage == "parse"
                code = "schema_parse_error" if is_syntax else "schema_catalog_error"
                self.report.extend([locate_mistake(code, one)])
        return file

    def _read_queries(self, graph_id: str, declared: Queries) -> Iterator[tuple[str, DesiredFile]]:
        seen: dict[str, str] = {}
        for ref in self._list_query_files(declared):
            file = self._read_file(ref, "query_file_missing")
            queries = [] if file is None else self._parse_queries(graph_id, file)
            if isinstance(declared, dict):
                self._compare_keys(declared, ref, queries)
            for query in queries:
                if query.name in seen:
                    message = f"query '{query.name}' is also defined in {seen[query.name]}"
                    self.report.add("duplicate_query_name", ref, message)
                    continue
                seen[query.name] = ref
                assert file is not None, "queries are of a file"
                yield query.name, file
        if seen and graph_id not in self.catalogs:
            message = f"the schema of '{graph_id}' has mistakes; its queries were not checked"
            self.report.add("query_typecheck_skipped", graph_address(graph_id), message)

    def _list_query_files(self, declared: Queries) -> Sequence[Located]:
        match declared:
            case dict():
                return list({path: path for path in declared.values()}.values())
            case tuple():
                return declared
            case folder:
                return self._list_folder(folder)

    def _list_folder(self, folder: Located) -> Sequence[Located]:
        try:
            names = sorted(
                one.name
                for one in (self.folder / folder).iterdir()
                if one.suffix == _QUERY_SUFFIX and one.is_file()
            )
        except OSError as error:
            message = f"cannot list {folder}: {error.strerror or error}"
            self.report.add("query_dir_unreadable", folder.at, message)
            return []
        if not names:
            self.report.add("query_dir_empty", folder.at, f"{folder} has no {_QUERY_SUFFIX} file")
        return [Located(f"{folder.rstrip('/')}/{name}", folder.at) for name in names]

    def _parse_queries(self, graph_id: str, file: DesiredFile) -> Sequence[QueryDecl]:
        catalog, queries = self.catalogs.get(graph_id), tuple[QueryDecl, ...]()
        with self.report.collect(), refusing_text("query_parse_error"):
            queries = parse_query_file(file.source).queries
        for query in queries:
            with self.report.collect(), refusing_text("query_typecheck_error"):
                if catalog is not None:
                    bind_query(query, catalog, file.source)
        return queries

    def _compare_keys(
        self, declared: Mapping[str, Located], ref: Located, queries: Iterable[QueryDecl]
    ) -> None:
        """Report keys without a query in their file, and queries of a file without a key."""
        keys = {name: other for name, other in declared.items() if other == ref}
        names = {query.name for query in queries}
        for name in sorted(keys.keys() - names):
            message = f"{ref} has no query '{name}'"
            self.report.add("query_key_mismatch", keys[name].at, message)
        for name in sorted(names - keys.keys()):
            message = f"{ref} has a query '{name}' that 'queries' does not name"
            self.report.add("query_key_mismatch", ref.at, message)

    # --- policies ---

    def read_policy(self, name: str, policy: PolicyDeclaration) -> None:
        ref = policy.file
        file = None if ref is None else self._read_file(ref, "policy_file_missing")
        if file is not None:
            self._check_policy(policy, file)
            self._add(policy_address(name), file, policy.applies_to)

    def _check_policy(self, policy: PolicyDeclaration, file: DesiredFile) -> None:
        is_of_server = policy.applies_to == (CLUSTER_SCOPE,)
        kind = BundleKind.CLUSTER if is_of_server else BundleKind.GRAPH
        with self.report.collect(), refusing_text("policy_invalid"):
            bundle = parse_bundle(file.source, kind)
            for scope in policy.applies_to:
                catalog = self.catalogs.get(scope.partition(".")[2])
                if catalog is None:
                    continue
                try:
                    ResolvedNames.find(bundle, catalog)
                except BadRequest as error:
                    self.report.add("policy_invalid", file.name, f"{scope}: {error.message}")

    # --- files ---

    def _read_file(self, ref: Located, code: str) -> DesiredFile | None:
        path = self.folder / ref
        try:
            return DesiredFile(str(ref), path, path.read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.report.add(code, ref.at, f"cannot read {ref}: {reason or error}")
            return None
