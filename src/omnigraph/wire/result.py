"""The base of every result that a surface shows: a struct whose fields are its JSON members."""

from __future__ import annotations

import msgspec


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """A result of an operation, as the library returns it and as every surface encodes it.

    A member without a default is always in the document, also as null; one with a default is left
    out while it has it. A field whose JSON name differs is declared with `msgspec.field(name=…)`.
    """

    def wire(self) -> dict[str, object]:
        """Return the JSON document of the result, as plain values."""
        document: dict[str, object] = msgspec.to_builtins(self)
        return document
