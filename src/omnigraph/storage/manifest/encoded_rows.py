"""A state of the manifest as rows to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.cache import Cache
from omnigraph.storage.manifest.manifest_rows import Row, to_arrow
from omnigraph.storage.manifest.state import ManifestState, encode_lasting, encode_moving


def encode_rows(state: ManifestState, added: Sequence[Row]) -> tuple[Sequence[pa.Table], pa.Table]:
    """The rows of a state, in pieces, and those that are added to the history with it."""
    moving = encode_moving(state)
    both = to_arrow([*moving, *added])
    return (_find_lasting(state), both.slice(0, len(moving))), both.slice(len(moving))


@dataclass(frozen=True, slots=True)
class _Lasting:
    """Rows that were made before, and the state they were made of."""

    state: ManifestState
    rows: pa.Table


_kept: Cache[tuple[int, ...], _Lasting] = Cache(16)


def _find_lasting(state: ManifestState) -> pa.Table:
    """The rows that stay the same from commit to commit, made once for all of them.

    States that differ in versions and heads alone share the rest, so that is told by being the same
    objects. They are kept with the rows, so that their numbers cannot become those of others.
    """
    parts = (state.registrations, state.tombstones, state.contract, state.foreign)
    key = tuple(map(id, parts))
    known = _kept.find(key)
    if known is None:
        known = _Lasting(state, to_arrow(encode_lasting(state)))
        _kept.keep(key, known)
    return known.rows
