"""The base of every error, and the six kinds: what the caller can do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

JsonValue = object


class OmniError(Exception):
    """The base of every error raised on purpose."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    wire_code: ClassVar[str] = "internal"
    """The closed set of the wire: newer meanings ride on detail fields with no code."""
    exit_code: ClassVar[int] = 1

    __module__ = "omnigraph.errors"
    """Where users import errors from, and so what tracebacks name."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("omnigraph.errors."):
            cls.__module__ = "omnigraph.errors"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def details(self) -> Mapping[str, JsonValue]:
        """The detail fields of the wire body, in addition to `error` and `code`.

        By default the facts of the error, as one member that is called like its code.
        """
        facts = {
            name: value
            for name, value in vars(self).items()
            if name != "message" and not name.startswith("_")
        }
        return {self.code: facts} if any(fact is not None for fact in facts.values()) else {}

    def wire(self) -> dict[str, JsonValue]:
        """The JSON error body shared by the CLI and the server."""
        body: dict[str, JsonValue] = {
            "error": self.message,
            "code": self.wire_code,
            "kind": self.code,
        }
        body.update(self.details())
        return body


class InputError(OmniError):
    code = "bad_request"
    http_status = 400
    wire_code: ClassVar[str] = "bad_request"


class NotFoundError(OmniError):
    code = "not_found"
    http_status = 404
    wire_code: ClassVar[str] = "not_found"


class ConflictError(OmniError):
    code = "conflict"
    http_status = 409
    wire_code: ClassVar[str] = "conflict"


class DeniedError(OmniError):
    code = "forbidden"
    http_status = 403
    wire_code: ClassVar[str] = "forbidden"


class LimitError(OmniError):
    code = "limit"
    http_status = 413
    wire_code: ClassVar[str] = "bad_request"


class StorageError(OmniError):
    code = "storage"
