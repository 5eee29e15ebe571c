"""The format stamp: which graphs this build reads, and what it says about the others."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import StampRefused
from omnigraph.storage.manifest.manifest_rows import STAMP_KEY
from omnigraph.version import INTERNAL_SCHEMA_VERSION

_RELEASES = {
    1: "0.3.1 or earlier",
    2: "0.4.1 to 0.6.1",
    3: "0.6.2 to 0.7.2",
    4: "0.8.x",
    5: "an unreleased build",
    6: "0.9.x to 0.10.x",
}
_IDENTITY_COLUMN = "stable_table_id"


def require_stamp(metadata: Mapping[str, str], columns: list[str]) -> int:
    """The stamp, which is the one this build writes; every other state of it is refused.

    Nothing else of a manifest may be decoded before this passed.
    """
    text = metadata.get(STAMP_KEY)
    if text is None:
        return _refuse_unstamped(columns)
    if not text.isascii() or not text.isdigit():
        raise StampRefused(
            f"__manifest carries the stamp {text!r}, which is not a number: the graph may be "
            "corrupt; keep its files as they are and look for a backup",
            text,
            INTERNAL_SCHEMA_VERSION,
        )
    found = int(text)
    if found > INTERNAL_SCHEMA_VERSION:
        raise StampRefused(
            f"__manifest is stamped at internal schema v{found}, this build expects "
            f"v{INTERNAL_SCHEMA_VERSION}; upgrade omnigraph",
            text,
            INTERNAL_SCHEMA_VERSION,
        )
    if found < INTERNAL_SCHEMA_VERSION:
        raise _make_too_old_error(found)
    return found


def _refuse_unstamped(columns: list[str]) -> int:
    if _IDENTITY_COLUMN not in columns:
        raise _make_too_old_error(1)
    raise StampRefused(
        "__manifest carries no stamp: either an interrupted initialization of an old build, or "
        "damaged metadata; delete the root and initialize again only if you know that the "
        "initialization failed, otherwise preserve it",
        None,
        INTERNAL_SCHEMA_VERSION,
    )


def _make_too_old_error(found: int) -> StampRefused:
    release = _RELEASES.get(found, "an unrecognized older release")
    return StampRefused(
        f"__manifest is stamped at internal schema v{found}, written by omnigraph {release}; "
        f"this build reads v{INTERNAL_SCHEMA_VERSION} only. With that release run "
        "`omnigraph export`, then with this one `omnigraph init` and "
        "`omnigraph load --mode overwrite`: data, vectors and blobs survive, history and "
        "branches do not (see the upgrade guide)",
        str(found),
        INTERNAL_SCHEMA_VERSION,
    )
