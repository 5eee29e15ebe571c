"""The object that holds a writer lease: what it says, and the one way it is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from omnigraph.errors import OutcomeUnknown, StorageFailure, StorageKind
from omnigraph.storage.fence.hold import Holder
from omnigraph.storage.layout import WRITER_LEASE
from omnigraph.storage.objects.store import ObjectStore, Versioned

_VERSION = 1


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What the lease object says; without a holder it is free.

    The nonce is fresh on every write, so that no two writes have the same tag.
    """

    epoch: int
    holder: Holder | None
    acquired_at: str
    expires_at: str
    term_s: float
    nonce: str

    def encode(self) -> bytes:
        value = {
            "version": _VERSION,
            "epoch": self.epoch,
            "holder": None if self.holder is None else self.holder.as_json(),
            "acquired_at": self.acquired_at,
            "expires_at": self.expires_at,
            "term_s": self.term_s,
            "nonce": self.nonce,
        }
        return json.dumps(value, indent=1).encode()


def decode_lease(data: bytes, uri: str) -> LeaseRecord:
    """The record.

    Raises:
        StorageFailure: it is damaged or of another format. It is never taken for a free lease.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    match value:
        case {
            "version": 1,
            "epoch": int(epoch),
            "holder": holder,
            "acquired_at": str(acquired_at),
            "expires_at": str(expires_at),
            "term_s": int() | float() as term_s,
            "nonce": str(nonce),
        } if holder is None or Holder.from_json(holder) is not None:
            return LeaseRecord(
                epoch, Holder.from_json(holder), acquired_at, expires_at, float(term_s), nonce
            )
        case _:
            raise StorageFailure(
                StorageKind.PERMANENT, f"{uri} is not a writer lease this build understands"
            )


class LeaseObject:
    """The lease object: reading it, and the one way of changing it."""

    def __init__(
        self,
        store: ObjectStore,
        now: Callable[[], datetime],
        new_nonce: Callable[[], str],
    ) -> None:
        self._store = store
        self._now, self._new_nonce = now, new_nonce

    def find(self) -> tuple[LeaseRecord, str] | None:
        found = self._store.find_versioned(WRITER_LEASE)
        return None if found is None else (self._decode(found), found.tag)

    def _decode(self, found: Versioned) -> LeaseRecord:
        return decode_lease(found.data, self._store.uri_of(WRITER_LEASE))

    def new_record(self, epoch: int, holder: Holder, term_s: float) -> LeaseRecord:
        now = self._now()
        return LeaseRecord(
            epoch, holder, _format_time(now), self._end(now, term_s), term_s, self._new_nonce()
        )

    def make_renewed(self, record: LeaseRecord) -> LeaseRecord:
        end = self._end(self._now(), record.term_s)
        return replace(record, expires_at=end, nonce=self._new_nonce())

    def make_freed(self, record: LeaseRecord) -> LeaseRecord:
        return replace(
            record, holder=None, expires_at=_format_time(self._now()), nonce=self._new_nonce()
        )

    def _end(self, now: datetime, term_s: float) -> str:
        return _format_time(now + timedelta(seconds=term_s))

    def write(self, record: LeaseRecord, *, over: str | None) -> bool:
        """Replace the lease that has the tag `over`, or create it; whether that was us."""
        data = record.encode()
        try:
            if over is None:
                return self._store.put_if_absent(WRITER_LEASE, data)
            return self._store.put_if_match(WRITER_LEASE, data, over)
        except OutcomeUnknown:
            found = self.find()  # the answer was lost, and the object tells
            return found is not None and found[0].nonce == record.nonce


def _format_time(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
