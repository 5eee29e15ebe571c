"""Which records there are that nothing else knows of, so that one that gets lost is noticed.

A branch whose record is gone is found by what was written to it. Of a tag, a consumer, a request or
the mark of a branch nothing is left without its file. So on a local disk each has a line in a log
beside them, of the same sort as the tables have, added once the file is there and blanked before
it goes. Object stores lose nothing by themselves; there is no log there.
"""

from __future__ import annotations

from contextlib import suppress

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.layout import CONSUMERS, REFS, RELATED, REQUESTS, TAGS
from omnigraph.storage.objects.object_errors import translate_os_errors
from omnigraph.storage.objects.store import ObjectStore, StoreKind
from omnigraph.storage.tables.checksums import (
    LOG,
    Checksum,
    add_checksums,
    forget_files,
    read_log,
    shorten_log,
)

_STAYS = 0
"""In place of a version: the line stays until it is forgotten, whether the file is there or not."""


def create_logged(store: ObjectStore, path: str, data: bytes) -> bool:
    """Put a record if there is none of its name; False where there is."""
    is_made = store.put_if_absent(path, data)
    if is_made:
        _note(store, path, data)
    return is_made


def _note(store: ObjectStore, path: str, data: bytes) -> None:
    """Failing to is no reason to fail what the record is about: its loss would go unnoticed."""
    folder = _find_folder(store)
    if folder is not None:
        with suppress(OSError):
            add_checksums(folder, [Checksum.of(_strip(path), data, _STAYS)])


def remove_logged(store: ObjectStore, *paths: str) -> None:
    """Remove records, on purpose."""
    folder = _find_folder(store)
    there = [path for path in paths if store.exists(path)]
    if folder is not None:
        with translate_os_errors("write", f"{folder}/{LOG}"):
            forget_files(folder, [_strip(path) for path in there])
    for path in there:
        store.delete(path)


def list_lost_records(store: ObjectStore, *prefixes: str) -> list[str]:
    """The records in some folders that were made and are gone, though nobody removed them."""
    folder = _find_folder(store)
    if folder is None:
        return []
    noted = [f"{REFS}/{name}" for name in read_log(folder).files]
    gone = [path for path in noted if path.startswith(prefixes) and not store.exists(path)]
    # Looked at again: somebody may have removed one meanwhile.
    still = read_log(folder).files if gone else {}
    return sorted(path for path in gone if _strip(path) in still)


def require_no_lost_records(store: ObjectStore, *prefixes: str) -> None:
    """Raise if a record is gone that keeps what it names from being cleaned away."""
    lost = list_lost_records(store, *prefixes)
    if lost:
        raise ManifestCorrupt(
            f"gone, though nobody removed it: {', '.join(lost)}; restore it from a backup, or make "
            "it again, and delete it then if it is no longer wanted"
        )


def find_log_damage(store: ObjectStore) -> str | None:
    """What is wrong with the log; None if it is whole. Those who make records may be at it."""
    folder = _find_folder(store)
    if folder is None:
        return None
    log = read_log(folder)
    if log.damaged_lines:
        return f"has {log.damaged_lines} damaged lines"
    missing = [path for path in _list_logged(store) if _strip(path) not in log.files]
    if missing and not read_log(folder).files.keys() >= {_strip(path) for path in missing}:
        return f"does not list {', '.join(missing)}, so that its loss would not be noticed"
    return None


def rewrite_record_log(store: ObjectStore) -> None:
    """Write the log anew, with every record that is there. To be called under the fence."""
    folder = _find_folder(store)
    if folder is None:
        return
    with translate_os_errors("write", f"{folder}/{LOG}"):
        shorten_log(folder)
        noted = read_log(folder).files
        found = {
            path: store.find(path) for path in _list_logged(store) if _strip(path) not in noted
        }
        sums = (Checksum.of(_strip(p), data, _STAYS) for p, data in found.items() if data)
        add_checksums(folder, sums)
        # Requests are forgotten by whoever made them, outside of the fence.
        forget_files(folder, [_strip(path) for path in found if not store.exists(path)])


def _list_logged(store: ObjectStore) -> list[str]:
    folders = (TAGS, CONSUMERS, RELATED, REQUESTS)
    return [f"{at}/{name}" for at in folders for name in store.list(at)]


def _find_folder(store: ObjectStore) -> str | None:
    return store.uri_of(REFS) if store.kind is StoreKind.LOCAL else None


def _strip(path: str) -> str:
    return path.removeprefix(f"{REFS}/")
