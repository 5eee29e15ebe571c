"""Reading the files of a configuration and checking each: alone, and with those it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omnigraph.catalog.catalog import Catalog
from omnigraph.cluster.cluster_config import (
    ClusterConfig,
    FileRef,
    GraphDeclaration,
    PolicyDeclaration,
    QueryDeclaration,
)
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.config_text import read_cluster_config
from omnigraph.cluster.config_values import describe_mistake, show_place
from omnigraph.cluster.desired_state import DesiredResource, DesiredState
from omnigraph.cluster.resource_addresses import (
    CLUSTER_SCOPE,
    graph_address,
    policy_address,
    provider_address,
    query_address,
    schema_address,
)
from omnigraph.cluster.resource_digests import digest_file, digest_graph, digest_profile
from omnigraph.cluster.state_ledger import RecordedBlobs, ResourceRecord
from omnigraph.errors import BadRequest, CompileError
from omnigraph.language.query.query_ast import QueryDecl
from omnigraph.language.query.query_parser import parse_query_file
from omnigraph.language.source import SourceText
from omnigraph.plan.bind import bind_query
from omnigraph.plan.compile import compile_catalog
from omnigraph.policy import BundleKind, parse_bundle
from omnigraph.policy.hidden_names import KnownNames

_QUERY_SUFFIX = ".gq"


def read_desired(folder: Path, report: ClusterReport) -> DesiredState:
    """What a folder asks for; everything that is wrong with it is reported.

    Raises:
        ClusterError: its `cluster.yaml` cannot be read at all.
    """
    config = read_cluster_config(folder, report)
    reader = _FileReader(folder, config, report)
    return DesiredState(folder, config, {one.address: one for one in reader.read_resources()})


@dataclass(frozen=True, slots=True)
class _File:
    """A file that could be read."""

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
    """The schemas without mistakes, by graph."""

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
        """Every key names a query of its file, and every query of a file has a key."""
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
                    KnownNames.find(bundle, catalog)
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
