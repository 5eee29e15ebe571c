"""Errors about limits: ask for less, or later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from omnigraph.errors.omni_error import JsonValue, LimitError


class ResourceLimitExceeded(LimitError):
    code = "resource_limit"

    def __init__(self, resource: str, limit: int, actual: int) -> None:
        super().__init__(f"{resource}: {actual} exceeds the limit of {limit}")
        self.resource, self.limit, self.actual = resource, limit, actual

    def details(self) -> Mapping[str, JsonValue]:
        limit = {"resource": self.resource, "limit": self.limit, "actual": self.actual}
        return {"resource_limit": limit}


class TooManyRequests(LimitError):
    """More requests at once than are admitted; nothing was done."""

    code = "too_many_requests"
    http_status = 429
    wire_code: ClassVar[str] = "too_many_requests"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(f"{message}; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ServerBusy(TooManyRequests):
    """More requests at once than a server takes on, whoever sends them; nothing was done."""

    code = "server_busy"
    http_status = 503
    wire_code: ClassVar[str] = "too_many_requests"


class DeadlineExceeded(LimitError):
    """A query that took longer than it may; nothing was changed."""

    code = "deadline_exceeded"
    http_status = 504

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the query took longer than {limit_s:g} s and was ended")
        self.limit_s = limit_s

    def details(self) -> Mapping[str, JsonValue]:
        return {"deadline": {"limit_ms": int(self.limit_s * 1000)}}


class InputTooLarge(LimitError):
    """A compressed file expands to more than a limit allows; `setting` raises the limit."""

    code = "input_too_large"

    def __init__(self, file: str, reason: str, setting: str) -> None:
        super().__init__(f"{file} {reason}; {setting} raises the limit, and 0 removes it")
        self.file, self.setting = file, setting
