"""JSON and plain values read into types, from any number of threads.

msgspec completes the description of a type on first use, and other threads can see it while it is
incomplete, which crashes the process. So every type is described here, by one thread at a time,
before anything is decoded into it.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_describing = threading.RLock()
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


def make_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return a JSON decoder of a type, not cached: for types made at run time."""
    with _describing:
        return msgspec.json.Decoder(kind)


def find_decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    """Return the JSON decoder of a type, cached for the life of the process."""
    found = _decoders.get(kind)
    return _decoders.setdefault(kind, make_decoder(kind)) if found is None else found


def decode_into(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON into a type.

    Raises:
        msgspec.DecodeError: it is no JSON, or not of this type.
    """
    return find_decoder(kind).decode(data)


def convert_into(value: object, kind: type[T]) -> T:
    """Convert plain values, as read from JSON, into a type.

    Raises:
        msgspec.ValidationError: it is not of this type.
    """
    find_decoder(kind)
    return msgspec.convert(value, kind)
