"""What the files of locks say, and whether they are as a writer leaves them.

The file of the writer lock holds a record of who has it: for people, and for telling whether the
writer before us gave the lock back. The other files are empty. The locks themselves are the
kernel's, so a damaged or missing file keeps nobody out and lets nobody in; the next writer puts it
right.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from omnigraph.storage.fence.hold import Holder
from omnigraph.storage.layout import OBJECTS_LOCK, WRITER_LOCK, WRITER_QUEUE_LOCK
from omnigraph.storage.objects.store import ObjectStore
from omnigraph.storage.sealed_json import is_sealed, seal

RECORD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class LockRecord:
    """Who has the writer lock, or had it last if `holder` is None."""

    epoch: int
    holder: Holder | None
    since: str


NOBODY = LockRecord(0, None, "")
UNKNOWN = LockRecord(0, Holder("", "unknown", 0), "")


def encode_record(record: LockRecord) -> bytes:
    """The content of the file; always as long, so that replacing it needs no room on the disk."""
    holder = None if record.holder is None else record.holder.as_json()
    value = {"epoch": record.epoch, "holder": holder, "since": record.since}
    text = msgspec.json.encode(seal(value))
    return text.ljust(RECORD_BYTES - 1)[: RECORD_BYTES - 1] + b"\n"


def decode_record(content: bytes) -> LockRecord:
    """Who had the lock last; nobody if the file was never written.

    One that was cut short or damaged says `UNKNOWN`: what its writer was doing is unknown as well.
    """
    if not content.strip(b"\0 \n"):
        return NOBODY
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return UNKNOWN
    match value:
        case {"epoch": int(epoch), "holder": holder, "since": str(since)} if is_sealed(value):
            return LockRecord(epoch, Holder.from_json(holder), since)
        case _:
            return UNKNOWN


def find_lock_damage(store: ObjectStore) -> dict[str, str]:
    """What is wrong with the files of locks, by their names."""
    problems: dict[str, str] = {}
    for name in (WRITER_LOCK, WRITER_QUEUE_LOCK, OBJECTS_LOCK):
        content = store.find(name)
        if content is None:
            problems[name] = "is missing; the next writer makes it again"
        elif not (_is_record(content) if name == WRITER_LOCK else not content):
            problems[name] = "is not what a writer leaves; the next one replaces it"
    return problems


def _is_record(content: bytes) -> bool:
    """Whether it is a record to the byte, its padding included."""
    record = decode_record(content)
    return record is not UNKNOWN and (record is NOBODY or content == encode_record(record))
