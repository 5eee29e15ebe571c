"""A line of JSON for each write and each denial, in a file that only grows."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import msgspec

from omnigraph.errors import BadRequest


class AuditLog:
    """Adds lines to a file; several processes may share it, since each line is one write."""

    def __init__(self, path: str | None) -> None:
        self._file: int | None = None
        if path is None:
            return
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file = os.open(Path(path), flags, 0o600)
        except OSError as error:
            raise BadRequest(f"cannot write the audit file: {error.strerror}") from error

    def record(self, event: str, **facts: object) -> None:
        """Add one line; facts without a value are left out."""
        if self._file is None:
            return
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        known = {name: value for name, value in facts.items() if value is not None}
        os.write(self._file, msgspec.json.encode({"at": now, "event": event, **known}) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
