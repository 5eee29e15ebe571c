"""Compute the vectors of rows: of `@embed` properties on write, and of those that a spec names.

On write, a vector that is omitted or null is computed from the text of its source. Without a
provider in the settings it stays null, and a required one is rejected with the settings to change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.constraints.table_changes import get_column
from omnigraph.embedding.embed_files import EmbedSpec, build_embed_text
from omnigraph.embedding.embedder_choice import choose_model, open_embedder
from omnigraph.embedding.text_vectors import TextVectors
from omnigraph.errors import BadRequest, EmbeddingFailed, TypeNotFound
from omnigraph.settings import EmbedSettings
from omnigraph.storage.tables import Table
from omnigraph.types.arrow import to_arrow_type

Flags = npt.NDArray[np.bool_]


def embeds_on_write(settings: EmbedSettings, find_catalog: Callable[[], Catalog]) -> bool:
    """Return whether a write may call an embedding provider."""
    if not is_configured(settings):
        return False
    return any(type_.embedded for type_ in find_catalog().nodes.values())


def is_configured(settings: EmbedSettings) -> bool:
    """Return whether writes compute vectors."""
    return settings.embeds_writes and _find_missing_key(settings) is None


_NO_PROVIDER = "no provider is asked here"


def _find_missing_key(settings: EmbedSettings) -> str | None:
    # Called by every write, usually with the same object, whose fields are slow to hash.
    known = _missing_keys.find(id(settings))
    if known is None:
        try:
            open_embedder(settings)
            known = settings, None
        except EmbeddingFailed as missing:
            known = settings, missing.message
        _missing_keys.keep(id(settings), known)
    return known[1]


_missing_keys: Cache[int, tuple[EmbedSettings, str | None]] = Cache(64)
"""By identity; the settings are retained, so that no other object can get their id."""


def find_obstacle(settings: EmbedSettings, property_: Property) -> str | None:
    """Return the reason why vectors of a property cannot be computed here, or None.

    Raises:
        BadRequest: the configuration of the provider is invalid.
        MissingPackage: the provider needs a package that is not installed.
    """
    if not settings.embeds_writes:
        return f"{EmbedSettings.variable('embeds_writes')} is false"
    missing = _find_missing_key(settings)
    if missing is not None:
        return missing
    recorded = property_.embed.model if property_.embed is not None else None
    model = choose_model(settings)
    if recorded is not None and recorded != model:
        return f"the schema records the model '{recorded}', and the embedder has '{model}'"
    return None


def _explain_missing_vector(property_: Property, obstacle: str | None) -> str:
    """Describe the rejection of a row whose vector is missing and cannot be computed."""
    assert property_.embed is not None, "listed as embedded"
    source = property_.embed.source
    why = obstacle or f"'{source}' has no text"
    return f"property '{property_.name}' is missing and cannot be made from '{source}': {why}"


def mask_texts(texts: pa.Array) -> Flags:
    """Mask the rows whose text is not blank."""
    says = pc.not_equal(pc.utf8_trim_whitespace(texts), "")
    found: Flags = says.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def mask_null(column: pa.Array) -> Flags:
    found: Flags = column.is_null().to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True)
class CompletedVectors:
    """Rows with the vectors of one property, as far as they could be computed."""

    rows: pa.Table
    lacking: Flags
    """The rows whose vector is NULL, which a required property refuses."""
    reason: str
    """Reason of such a refusal."""
    is_computed: bool
    """True if the vectors of stale rows were computed or cleared."""


def complete_vectors(
    type_: NodeType | EdgeType,
    rows: pa.Table,
    property_: Property,
    stale: Flags,
    vectors: TextVectors | None,
    find_stored: Callable[[], Table] | None = None,
) -> CompletedVectors:
    """Compute the vectors of stale rows; a text that is blank takes its vector with it.

    Args:
        type_: The type of the rows.
        rows: Rows with the property and its source.
        property_: The vector property.
        stale: The rows whose vector has to be computed.
        vectors: Requests vectors; None if they are not computed here.
        find_stored: Opens the stored rows, which lend their vectors where the text is the same.
    """
    assert property_.embed is not None, "listed as embedded"
    obstacle = _NO_PROVIDER if vectors is None else find_obstacle(vectors.settings, property_)
    is_computed = vectors is not None and obstacle is None and bool(stale.any())
    if vectors is not None and is_computed:
        if find_stored is not None:
            rows = reuse_stored_vectors(rows, property_, stale, find_stored())
            stale = stale & mask_null(get_column(rows, property_.name))
        source = property_.embed.source
        says = mask_texts(get_column(rows, source))
        rows = fill_vectors(type_, rows, property_, (source,), stale & says, vectors)
        silent = np.flatnonzero(stale & ~says)
        none = pa.nulls(len(silent), to_arrow_type(property_.type))
        rows = replace_cells(rows, property_.name, silent, none)
    lacking = mask_null(get_column(rows, property_.name))
    reason = _explain_missing_vector(property_, obstacle)
    return CompletedVectors(rows, lacking, reason, is_computed)


def fill_vectors(
    type_: NodeType | EdgeType,
    rows: pa.Table,
    property_: Property,
    fields: Sequence[str],
    chosen: Flags,
    vectors: TextVectors,
) -> pa.Table:
    """Fill the vectors of the chosen rows from the text of some properties.

    Raises:
        EmbeddingFailed: the provider failed.
    """
    assert property_.type.dimension is not None, "vectors have a dimension"
    positions = np.flatnonzero(chosen)
    if not len(positions):
        return rows
    names = list(dict.fromkeys(fields))
    sources = rows.select(names).take(pa.array(positions)).to_pylist()
    texts = [build_embed_text(type_.name, source, fields) for source in sources]
    found = vectors.ask(texts, property_.type.dimension)
    made = pa.array([found[text] for text in texts], to_arrow_type(property_.type))
    return replace_cells(rows, property_.name, positions, made)


def reuse_stored_vectors(
    rows: pa.Table, property_: Property, lacking: Flags, table: Table
) -> pa.Table:
    """Fill missing vectors with the stored ones of rows whose text is unchanged."""
    assert property_.embed is not None, "listed as embedded"
    source, positions = property_.embed.source, np.flatnonzero(lacking)
    ids = get_column(rows, "id").take(pa.array(positions))
    stored = table.lookup("id", ids, ["id", source, property_.name])
    if not stored.num_rows:
        return rows
    found = pc.index_in(ids, value_set=get_column(stored, "id"), skip_nulls=True)
    before = get_column(stored, source).take(found)
    now = get_column(rows, source).take(pa.array(positions))
    is_same = pc.equal(before.cast(pa.string()), now).fill_null(False)
    same: Flags = is_same.to_numpy(zero_copy_only=False)
    kept = get_column(stored, property_.name).take(found.filter(is_same))
    return replace_cells(rows, property_.name, positions[same], kept)


def replace_cells(
    rows: pa.Table, name: str, positions: np.ndarray[tuple[int], np.dtype[np.int64]], made: pa.Array
) -> pa.Table:
    """Replace the values at some positions of a column."""
    if not len(positions):
        return rows
    old = get_column(rows, name)
    taken = np.arange(len(old))
    taken[positions] = len(old) + np.arange(len(positions))
    column = pa.concat_arrays([old.cast(made.type), made]).take(pa.array(taken))
    index = rows.schema.get_field_index(name)
    return rows.set_column(index, rows.schema.field(index), column)


# --- vectors of a graph ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GraphTarget:
    """A vector property of a type, and the properties its text is made of."""

    type_: NodeType | EdgeType
    property: Property
    fields: tuple[str, ...]


def list_graph_targets(
    catalog: Catalog, types: Sequence[str], spec: EmbedSpec | None, model: str
) -> list[GraphTarget]:
    """List the vectors to fill: those of the spec, or every vector with a source in the schema."""
    if spec is not None:
        found = [_find_specified(catalog, name, spec) for name in spec.types]
    else:
        found = [
            GraphTarget(type_, one, (one.embed.source,))
            for type_ in catalog.by_table_key.values()
            for one in type_.properties
            if one.embed is not None and one.type.is_vector
        ]
    for name in types:
        if not any(target.type_.name == name for target in found):
            raise BadRequest(f"the spec does not say how to build the vectors of '{name}'")
    chosen = [target for target in found if not types or target.type_.name in types]
    for target in chosen:
        _require_model(target, model)
    return sorted(chosen, key=lambda target: (target.type_.table_key, target.property.name))


def _find_specified(catalog: Catalog, name: str, spec: EmbedSpec) -> GraphTarget:
    type_ = catalog.nodes.get(name) or catalog.find_edge(name)
    if type_ is None:
        raise TypeNotFound(name, f"the schema has no type '{name}'")
    wanted = spec.types[name]
    property_ = type_.property(wanted.target)
    if property_ is None or not property_.type.is_vector:
        raise BadRequest(f"{name}.{wanted.target} is not a vector")
    if property_.type.dimension != spec.dimension:
        raise BadRequest(
            f"{name}.{wanted.target} has {property_.type.dimension} dimensions, "
            f"the spec says {spec.dimension}"
        )
    for field_name in wanted.fields:
        source = type_.property(field_name)
        if source is None or source.type.is_vector or source.type.is_blob:
            raise BadRequest(f"{name}.{field_name} cannot be used as text")
    return GraphTarget(type_, property_, wanted.fields)


def _require_model(target: GraphTarget, model: str) -> None:
    recorded = target.property.embed.model if target.property.embed is not None else None
    if recorded is not None and recorded != model:
        raise BadRequest(
            f"the schema says that {target.type_.name}.{target.property.name} is made by model "
            f"'{recorded}'; the embedder has '{model}'"
        )
