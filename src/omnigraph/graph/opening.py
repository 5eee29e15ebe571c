"""Creating and opening graphs."""

from __future__ import annotations

import logging

from omnigraph.catalog.catalog import Catalog
from omnigraph.catalog.codec import SchemaState, encode_ir, encode_state
from omnigraph.errors import GraphNotFound, StorageError, StorageFailure
from omnigraph.execution.stored_rows import build_table_schema
from omnigraph.language.source import SourceText
from omnigraph.storage.clone_claim import require_finished
from omnigraph.storage.initialize import (
    NewTable,
    initialize,
    is_initialized,
    list_mirror_files,
)
from omnigraph.storage.manifest import SchemaContract
from omnigraph.storage.objects import require_create_if_absent
from omnigraph.storage.recovery import SettledIntent, list_operations, settle_all
from omnigraph.storage.relocate import settle_in
from omnigraph.storage.root import GraphRoot

log = logging.getLogger(__name__)


def create_graph(
    root: GraphRoot, schema: SourceText, *, force: bool = False, actor: str | None = None
) -> None:
    """Create a graph with this schema; a schema with mistakes writes nothing."""
    # A graph that is opened has its schema compiled.
    from omnigraph.catalog.build import compile_schema  # noqa: PLC0415
    from omnigraph.catalog.identify import derive_first_identity, identify_first  # noqa: PLC0415

    domain = root.ids.next()
    catalog = identify_first(compile_schema(schema), domain, derive_first_identity(domain))
    contract = make_contract(catalog, schema.text)
    initialize(root, list_new_tables(catalog), contract, force=force, actor=actor)


def make_contract(catalog: Catalog, source: str) -> SchemaContract:
    state = encode_state(SchemaState.of(catalog, source))
    return SchemaContract(source, encode_ir(catalog), state)


def list_new_tables(catalog: Catalog) -> list[NewTable]:
    return [
        NewTable(type_.identity, key, build_table_schema(type_))
        for key, type_ in sorted(catalog.by_table_key.items())
    ]


def require_graph(root: GraphRoot) -> None:
    if not is_initialized(root.store):
        raise GraphNotFound(root.uri)


def require_whole(root: GraphRoot) -> None:
    """Raise `CloneUnfinished` for a graph that is still being copied to its place."""
    require_finished(root.store)


def make_ready(root: GraphRoot) -> list[SettledIntent]:
    """Ready a graph for writing; gives the interrupted writes that were settled.

    The store is tried, and a moved graph settles in. On a full disk all of that is left to the
    next writer: `cleanup` must be able to open what it makes room in, and any other write settles
    what is pending before it, or fails.
    """
    settled: list[SettledIntent] = []
    try:
        require_create_if_absent(root.store, root.ids)
        settle_in(root)
        if list_operations(root.store):
            with root.hold() as hold:
                settled = settle_all(root, hold)
    except StorageFailure as failure:
        if not failure.is_disk_full:
            raise
        log.warning("%s: %s", root.uri, failure.message)
    return settled


def is_mirror_current(root: GraphRoot, contract: SchemaContract) -> bool:
    """Whether the schema files say what the manifest says, as far as can be seen."""
    try:
        return all(
            root.store.find(path) == text.encode() for path, text in list_mirror_files(contract)
        )
    except StorageError:
        return False


def rewrite_mirror(root: GraphRoot, contract: SchemaContract) -> None:
    """Rewrite the schema files that do not say what the manifest says.

    They are there for people; the manifest is what counts, so failing to write them is no reason
    to refuse the graph.
    """
    for path, text in list_mirror_files(contract):
        try:
            if root.store.find(path) != text.encode():
                # Whoever opens the graph next rewrites what a power cut takes.
                root.store.put(path, text.encode(), durably=False)
        except StorageError:
            return
