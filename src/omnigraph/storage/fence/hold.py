"""What a fence gives: the right to change a graph, for a while."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Protocol, Self
from uuid import uuid4

from omnigraph.errors import ReadSetChanged


class Hold(Protocol):
    """The right to change a graph. Leaving the `with` block gives it back."""

    @property
    def epoch(self) -> int:
        """A number larger than that of every hold before this one on the same root."""
        ...

    @property
    def took_over(self) -> bool:
        """Whether the writer before us ended without giving its hold back.

        It may have left a write half done, so recovery comes before the first effect.
        """
        ...

    def check(self) -> None:
        """Pass if the hold is still ours; called right before every effect.

        Raises:
            ReadSetChanged: another writer may be at work; nothing more may be changed.
        """
        ...

    def release(self) -> None:
        """Let the next writer in. Safe to repeat."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def is_held(hold: Hold) -> bool:
    """Whether the hold is still ours: what was just done was done before anybody else came."""
    try:
        hold.check()
    except ReadSetChanged:
        return False
    return True


class Fence(Protocol):
    """Lets one writer of a graph root in at a time. Holds do not nest."""

    @property
    def spans_processes(self) -> bool:
        """Whether writers in other processes are kept out as well."""
        ...

    def acquire(self, wait_s: float) -> Hold:
        """The hold, once no one else has it.

        Raises:
            WriterBusy: somebody else still had it after `wait_s` seconds.
        """
        ...


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a hold: a random id to tell runs apart, and where to look for the process."""

    id: str
    host: str
    pid: int

    @classmethod
    def of_this_process(cls) -> Holder:
        return cls(uuid4().hex, socket.gethostname(), os.getpid())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def as_json(self) -> dict[str, object]:
        return {"id": self.id, "host": self.host, "pid": self.pid}

    @classmethod
    def from_json(cls, value: object) -> Holder | None:
        match value:
            case {"id": str(id), "host": str(host), "pid": int(pid)}:
                return cls(id, host, pid)
            case _:
                return None


def make_fence_lost(epoch: int, now: str) -> ReadSetChanged:
    return ReadSetChanged("writer_fence", f"epoch {epoch}", now)
