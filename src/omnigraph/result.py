"""The base of every result that a surface shows: a struct whose fields are its JSON members."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of an operation, as the library returns it and as every surface encodes it.

    A member without a default is always in the document, also as null; one with a default is
    omitted while it has it, unless the class sets `omit_defaults=False`. A field whose JSON name
    differs is declared with `msgspec.field(name=…)`.
    """

    attributes: ClassVar[tuple[str, ...]] = ()
    """Fields that only the library shows: they have defaults and are in no document."""

    def wire(self) -> dict[str, object]:
        """Return the JSON document of the result, as plain values."""
        document: dict[str, object] = msgspec.json.decode(msgspec.json.encode(self.as_document()))
        return document

    def as_document(self) -> Result:
        """Return the result with the defaults of what only the library shows."""
        if not self.attributes:
            return self
        fields = type(self).__struct_fields__
        defaults = dict(
            zip(reversed(fields), reversed(type(self).__struct_defaults__), strict=False)
        )
        return msgspec.structs.replace(self, **{name: defaults[name] for name in self.attributes})


class WriteResult(Result, frozen=True, kw_only=True):
    """A result of a write that is made once for an idempotency key."""

    attributes: ClassVar[tuple[str, ...]] = ("is_replayed",)

    is_replayed: bool = False
    """Whether it is a recorded result of an earlier request with this key; a header over HTTP."""
