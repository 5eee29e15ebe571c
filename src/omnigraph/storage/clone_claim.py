"""The claim of a clone on the place it copies to: nothing opens that as a graph meanwhile.

Whoever starts a clone over takes the claim away from who made it, and that one may only be asleep.
So a claim changes hands only as it was read. It is released before it is removed: from then on
nobody takes it, and a removal that comes late does not meet the claim of another clone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from omnigraph.errors import CloneUnfinished
from omnigraph.storage.layout import CLONE_CLAIM
from omnigraph.storage.objects.store import ObjectStore

_RELEASED = "is_released"


@dataclass(frozen=True)
class CloneClaim:
    """A claim as it was read, and the tag by which it is replaced."""

    data: bytes
    tag: str

    @property
    def is_released(self) -> bool:
        """Whether the place is what it is without the claim."""
        return self._body.get(_RELEASED) is True

    @property
    def source(self) -> str:
        return str(self._body.get("source", "an unknown graph"))

    @cached_property
    def _body(self) -> Mapping[str, object]:
        try:
            body = json.loads(self.data)
        except (ValueError, RecursionError):
            return {}
        return body if isinstance(body, dict) else {}


def find_claim(store: ObjectStore) -> CloneClaim | None:
    found = store.find_versioned(CLONE_CLAIM)
    return None if found is None else CloneClaim(found.data, found.tag)


def require_finished(store: ObjectStore) -> None:
    """Raise `CloneUnfinished` if a clone to this place is under way, or was interrupted."""
    claim = find_claim(store)
    if claim is not None and not claim.is_released:
        raise CloneUnfinished(store.uri, claim.source)


def encode_claim(attempt: str, source: str, *, is_released: bool = False) -> bytes:
    body = {"version": 1, "attempt_id": attempt, "source": source}
    return json.dumps(body | ({_RELEASED: True} if is_released else {})).encode()


def take_claim(store: ObjectStore, data: bytes, over: CloneClaim | None) -> bool:
    """Make a claim in place of the one that was found; False if that is no longer there."""
    if over is None:
        return store.put_if_absent(CLONE_CLAIM, data)
    return store.put_if_match(CLONE_CLAIM, data, over.tag)


def holds_claim(store: ObjectStore, data: bytes) -> bool:
    return store.find(CLONE_CLAIM) == data


def release_claim(store: ObjectStore, data: bytes, released: bytes) -> bool:
    """Give a claim up; False if another clone has taken it meanwhile."""
    claim = find_claim(store)
    if claim is None or claim.data != data or not take_claim(store, released, claim):
        return False
    store.delete(CLONE_CLAIM)
    return True
