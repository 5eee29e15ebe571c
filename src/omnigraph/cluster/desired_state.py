"""The desired state: the resources of a configuration, read from its files and checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from omnigraph.catalog.catalog import Catalog
from omnigraph.cluster.cluster_config import (
    ClusterConfig,
    FileRef,
    GraphDeclaration,
    PolicyDeclaration,
    QueryDeclaration,
    describe_mistake,
    read_cluster_config,
    show_place,
)
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.resources import (
    CLUSTER_SCOPE,
    ResourceKind,
    digest_config,
    digest_file,
    digest_graph,
    digest_profile,
    find_graph_id,
    find_resource_kind,
    graph_address,
    policy_address,
    provider_address,
    query_address,
    schema_address,
)
from omnigraph.cluster.state_ledger import RecordedBlobs, ResourceRecord
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
class DesiredResource:
    """One resource: its record in the ledger, and its file if it has one."""

    address: str
    record: ResourceRecord
    path: Path | None = None
    data: bytes | None = None

    @property
    def digest(self) -> str:
        return self.record.digest

    @property
    def source(self) -> SourceText:
        """The text of its file, named as in the configuration."""
        assert self.data is not None, f"{self.address} has no file"
        return SourceText.from_bytes(self.data, self.record.source or self.address)

    def require_unchanged(self) -> None:
        """Raise if its file changed after it was checked and planned.

        Raises:
            ClusterError: the file was edited or removed.
        """
        if self.path is None:
            return
        try:
            digest = digest_file(self.path.read_bytes())
        except OSError:
            digest = None
        if digest != self.digest:
            message = f"{self.record.source} changed while it was being applied; apply again"
            raise refuse("resource_content_changed", self.address, message)

    def wire(self) -> dict[str, object]:
        kind = str(find_resource_kind(self.address))
        body: dict[str, object] = {"address": self.address, "kind": kind, "digest": self.digest}
        return {**body, "path": self.record.source} if self.record.source else body


@dataclass(frozen=True)
class DesiredState:
    """All resources of a configuration."""

    folder: Path
    config: ClusterConfig
    resources: Mapping[str, DesiredResource] = field(default_factory=dict)

    @property
    def digests(self) -> dict[str, str]:
        return {address: one.digest for address, one in sorted(self.resources.items())}

    @cached_property
    def config_digest(self) -> str:
        return digest_config(self.config.describe(), self.digests)

    def find_schema_digest(self, graph_id: str) -> str | None:
        found = self.resources.get(schema_address(graph_id))
        return None if found is None else found.digest

    def list_dependencies(self) -> list[tuple[str, str]]:
        """List the pairs of a resource and one that it needs."""
        found: list[tuple[str, str]] = []
        for address, one in self.resources.items():
            graph_id = find_graph_id(address)
            match find_resource_kind(address):
                case ResourceKind.SCHEMA:
                    found.append((address, graph_address(str(graph_id))))
                case ResourceKind.QUERY:
                    found.append((address, graph_address(str(graph_id))))
                    found.append((address, schema_address(str(graph_id))))
                case ResourceKind.GRAPH:
                    provider = one.record.embedding_provider
                    found += [(address, provider)] if provider else []
                case ResourceKind.POLICY:
                    scopes = one.record.applies_to or ()
                    found += [(address, scope) for scope in scopes if scope in self.resources]
                case ResourceKind.PROVIDER:
                    pass
        return sorted(found)


def read_desired(folder: Path, report: ClusterReport) -> DesiredState:
    """Read the desired state of a folder; every mistake is reported.

    Raises:
        ClusterError: its `cluster.yaml` cannot be read at all.
    """
    config = read_cluster_config(folder, report)
    reader = _FileReader(folder, config, report)
    return DesiredState(folder, config, {one.address: one for one in reader.read_resources()})


@dataclass(frozen=True, slots=True)
class _File:
    """The content of a file."""

    ref: FileRef
    path: Path
    data: bytes

    @property
    def digest(self) -> str:
        return digest_file(self.data)

    def make_resource(self, address: str, record: ResourceRecord) -> DesiredResource:
        return DesiredResource(address, record, self.path, self.data)


@dataclass
class _FileReader:
    folder: Path
    config: ClusterConfig
    report: ClusterReport
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    """The valid schemas, by graph."""

    def read_resources(self) -> Iterator[DesiredResource]:
        for name, profile in self.config.providers.items():
            record = ResourceRecord(digest=digest_profile(profile), embedding_profile=profile)
            yield DesiredResource(provider_address(name), record)
        for graph in self.config.graphs.values():
            yield from self._read_graph(graph)
        for policy in self.config.policies.values():
            yield from self._read_policy(policy)

    # --- graphs ---

    def _read_graph(self, graph: GraphDeclaration) -> Iterator[DesiredResource]:
        schema = None if graph.schema is None else self._read_schema(graph.id, graph.schema)
        queries = [] if graph.queries is None else list(self._read_queries(graph, graph.queries))
        if schema is None:
            return
        yield schema
        yield from queries
        provider = graph.embedding_provider
        profile = None if provider is None else self.config.providers.get(provider)
        blobs = graph.external_blobs
        digest = digest_graph(
            graph.id,
            schema.digest,
            {one.address.rpartition(".")[2]: one.digest for one in queries},
            None
            if provider is None or profile is None
            else (provider_address(provider), digest_profile(profile)),
            blobs,
        )
        yield DesiredResource(
            graph_address(graph.id),
            ResourceRecord(
                digest=digest,
                embedding_provider=None if provider is None else provider_address(provider),
                external_blob_policy=RecordedBlobs("allow", blobs.bases) if blobs.bases else None,
            ),
        )

    def _read_schema(self, graph_id: str, ref: FileRef) -> DesiredResource | None:
        file = self._read_file(ref, "schema_file_missing")
        if file is None:
            return None
        try:
            source = SourceText.from_bytes(file.data, ref.path)
            self.catalogs[graph_id] = compile_catalog(source)
        except CompileError as error:
            for one in error.diagnostics:
                is_syntax = one.stage == "parse"
                code = "schema_parse_error" if is_syntax else "schema_catalog_error"
                self.report.add(code, show_place(one), describe_mistake(one))
        record = ResourceRecord(digest=file.digest, source=ref.path)
        return file.make_resource(schema_address(graph_id), record)

    def _read_queries(
        self, graph: GraphDeclaration, declared: QueryDeclaration
    ) -> Iterator[DesiredResource]:
        seen: dict[str, str] = {}
        for ref in self._list_query_files(declared):
            file = self._read_file(ref, "query_file_missing")
            queries = [] if file is None else self._parse_queries(graph.id, file)
            if declared.named is not None:
                self._compare_keys(declared, ref, queries)
            for query in queries:
                if query.name in seen:
                    message = f"query '{query.name}' is also defined in {seen[query.name]}"
                    self.report.add("duplicate_query_name", ref.path, message)
                    continue
                seen[query.name] = ref.path
                assert file is not None, "queries are of a file"
                record = ResourceRecord(digest=file.digest, source=ref.path)
                yield file.make_resource(query_address(graph.id, query.name), record)
        if seen and graph.id not in self.catalogs:
            message = f"the schema of '{graph.id}' has mistakes; its queries were not checked"
            self.report.add("query_typecheck_skipped", graph_address(graph.id), message)

    def _list_query_files(self, declared: QueryDeclaration) -> Sequence[FileRef]:
        if declared.named is not None:
            return list({ref.path: ref for ref in declared.named.values()}.values())
        if declared.folder is None:
            return declared.files
        ref = declared.folder
        try:
            names = sorted(
                one.name
                for one in (self.folder / ref.path).iterdir()
                if one.suffix == _QUERY_SUFFIX and one.is_file()
            )
        except OSError as error:
            message = f"cannot list {ref.path}: {error.strerror or error}"
            self.report.add("query_dir_unreadable", ref.at, message)
            return []
        if not names:
            self.report.add("query_dir_empty", ref.at, f"{ref.path} has no {_QUERY_SUFFIX} file")
        return [FileRef(f"{ref.path.rstrip('/')}/{name}", ref.at) for name in names]

    def _parse_queries(self, graph_id: str, file: _File) -> Sequence[QueryDecl]:
        try:
            source = SourceText.from_bytes(file.data, file.ref.path)
            queries = parse_query_file(source).queries
        except CompileError as error:
            self._report_all("query_parse_error", error)
            return []
        catalog = self.catalogs.get(graph_id)
        if catalog is None:
            return queries
        for query in queries:
            try:
                bind_query(query, catalog, source)
            except CompileError as error:
                self._report_all("query_typecheck_error", error)
        return queries

    def _compare_keys(
        self, declared: QueryDeclaration, ref: FileRef, queries: Iterable[QueryDecl]
    ) -> None:
        """Report keys without a query in their file, and queries of a file without a key."""
        assert declared.named is not None
        keys = {name for name, other in declared.named.items() if other.path == ref.path}
        names = {query.name for query in queries}
        for name in sorted(keys - names):
            at = declared.named[name].at
            self.report.add("query_key_mismatch", at, f"{ref.path} has no query '{name}'")
        for name in sorted(names - keys):
            message = f"{ref.path} has a query '{name}' that 'queries' does not name"
            self.report.add("query_key_mismatch", ref.at, message)

    # --- policies ---

    def _read_policy(self, policy: PolicyDeclaration) -> Iterator[DesiredResource]:
        if policy.file is None:
            return
        file = self._read_file(policy.file, "policy_file_missing")
        if file is None:
            return
        self._check_policy(policy, file)
        record = ResourceRecord(
            digest=file.digest, source=policy.file.path, applies_to=policy.applies_to
        )
        yield file.make_resource(policy_address(policy.name), record)

    def _check_policy(self, policy: PolicyDeclaration, file: _File) -> None:
        is_of_server = policy.applies_to == (CLUSTER_SCOPE,)
        kind = BundleKind.CLUSTER if is_of_server else BundleKind.GRAPH
        try:
            bundle = parse_bundle(SourceText.from_bytes(file.data, file.ref.path), kind)
        except CompileError as error:
            self._report_all("policy_invalid", error)
            return
        for scope in policy.applies_to:
            catalog = self.catalogs.get(scope.partition(".")[2])
            if catalog is not None:
                try:
                    ResolvedNames.find(bundle, catalog)
                except BadRequest as error:
                    self.report.add("policy_invalid", file.ref.path, f"{scope}: {error.message}")

    # --- files ---

    def _read_file(self, ref: FileRef, code: str) -> _File | None:
        path = self.folder / ref.path
        try:
            return _File(ref, path, path.read_bytes())
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            self.report.add(code, ref.at, f"cannot read {ref.path}: {reason or error}")
            return None

    def _report_all(self, code: str, error: CompileError) -> None:
        for one in error.diagnostics:
            self.report.add(code, show_place(one), describe_mistake(one))
