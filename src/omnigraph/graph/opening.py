"""Creating and opening graphs."""

from __future__ import annotations

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.codec import SchemaState, encode_ir, encode_state
from omnigraph.catalog.identify import first_identity_of, identify_first
from omnigraph.catalog.model import Catalog
from omnigraph.errors import GraphNotFound, StorageError
from omnigraph.execution.physical import table_schema
from omnigraph.language.source import SourceText
from omnigraph.storage.initialize import (
    NewTable,
    initialize,
    is_initialized,
    mirror_files,
    require_finished,
)
from omnigraph.storage.manifest.state import SchemaContract
from omnigraph.storage.objects.probe import require_create_if_absent
from omnigraph.storage.recovery.intent import list_operations
from omnigraph.storage.recovery.settle import Settled, settle_all
from omnigraph.storage.relocate import settle_in
from omnigraph.storage.root import GraphRoot


def create_graph(root: GraphRoot, schema: SourceText, *, force: bool = False) -> None:
    """Create a graph with this schema; a schema with mistakes writes nothing."""
    domain = root.ids.next()
    catalog = identify_first(compile_schema(schema), domain, first_identity_of(domain))
    initialize(root, new_tables(catalog), contract_of(catalog, schema.text), force=force)


def contract_of(catalog: Catalog, source: str) -> SchemaContract:
    state = encode_state(SchemaState.of(catalog, source))
    return SchemaContract(source, encode_ir(catalog), state)


def new_tables(catalog: Catalog) -> list[NewTable]:
    return [
        NewTable(type_.identity, key, table_schema(type_))
        for key, type_ in sorted(catalog.by_table_key.items())
    ]


def require_graph(root: GraphRoot) -> None:
    if not is_initialized(root.store):
        raise GraphNotFound(root.uri)


def require_whole(root: GraphRoot) -> None:
    """Raise `CloneUnfinished` for a graph that is still being copied to its place."""
    require_finished(root.store)


def make_ready(root: GraphRoot) -> list[Settled]:
    """Ready a graph for writing; gives the interrupted writes that were settled.

    The store is tried, and a moved graph settles in.
    """
    require_create_if_absent(root.store, root.ids)
    settle_in(root)
    settled: list[Settled] = []
    if list_operations(root.store):
        with root.hold() as hold:
            settled = settle_all(root, hold)
    return settled


def heal_mirror(root: GraphRoot, contract: SchemaContract) -> None:
    """Rewrite the schema files that do not say what the manifest says.

    They are there for people; the manifest is what counts, so failing to write them is no reason
    to refuse the graph.
    """
    for path, text in mirror_files(contract):
        try:
            if root.store.find(path) != text.encode():
                root.store.put(path, text.encode())
        except StorageError:
            return
