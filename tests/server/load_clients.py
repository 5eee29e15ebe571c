"""Many clients at once in one thread: each has a connection, which is opened again if it breaks."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

WRITE = """query add($name: String) {
  insert Person { name: $name, age: 1 }
  insert Knows { from: $name, to: "Ada" }
}"""
READ = """query find($name: String) {
  match { $p: Person { id: $name }  $p knows $other }
  return { $p.name as name, $other.name as other }
}"""
BROKEN = (OSError, EOFError, ValueError, asyncio.IncompleteReadError)
TRY_AGAIN = frozenset({409, 429, 500, 503, 504})
"""A write may be sent again after these; none of them is a wrong answer."""
_PAUSE_S = 0.05


@dataclass
class Client:
    """One connection to a server."""

    host: str
    port: int
    graph: str
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def post(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict]:
        """Status and body of the answer; a connection that breaks is an error of `BROKEN`."""
        try:
            return await self._post(path, body, headers or {})
        except BROKEN:
            await self.close()
            raise

    async def _post(self, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, dict]:
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self.host, self.port)
        assert self._reader is not None
        data = json.dumps(body).encode()
        given = {
            "Host": self.host,
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **headers,
        }
        lines = [f"POST {self.graph}/{path} HTTP/1.1", *(f"{k}: {v}" for k, v in given.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + data)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        found = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        answer = await self._reader.readexactly(int(found["content-length"]))
        if found.get("connection", "").lower() == "close":
            await self.close()
        return status, json.loads(answer)

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


@dataclass
class Storm:
    """Requests of many clients, and the mistakes they found."""

    acknowledged: list[str] = field(default_factory=list)
    wrong: list[object] = field(default_factory=list)
    write_seconds: list[float] = field(default_factory=list)
    read_seconds: list[float] = field(default_factory=list)

    async def run(self, client: Client, number: int, turns: int, until: float, seed: int) -> None:
        """Write, read the written row, and read rows of other writers, by count or by time."""
        chance = random.Random(seed * 1_000 + number)
        turn = 0
        while turn < turns or time.monotonic() < until:
            name = f"c{number}-{turn}"
            turn += 1
            if await self._write(client, name):
                self.acknowledged.append(name)
                await self._read(client, name)
            for _ in range(2):
                if self.acknowledged:
                    await self._read(client, chance.choice(self.acknowledged))
        await client.close()

    async def _write(self, client: Client, name: str) -> bool:
        """Send a write with a key until its outcome is known."""
        started = time.monotonic()
        while True:
            try:
                status, body = await client.post(
                    "mutate", {"query": WRITE, "params": {"name": name}}, {"Idempotency-Key": name}
                )
            except BROKEN:
                await asyncio.sleep(_PAUSE_S)
                continue
            if status == 200:
                self.write_seconds.append(time.monotonic() - started)
                return True
            if status not in TRY_AGAIN:
                self.wrong.append((name, status, body))
                return False
            await asyncio.sleep(_PAUSE_S)

    async def _read(self, client: Client, name: str) -> None:
        """Read every acknowledged write in full from any worker."""
        started = time.monotonic()
        try:
            status, body = await client.post("query", {"query": READ, "params": {"name": name}})
        except BROKEN:
            await asyncio.sleep(_PAUSE_S)
            return
        self.read_seconds.append(time.monotonic() - started)
        if status == 200:
            if body["rows"] != [{"name": name, "other": "Ada"}]:
                self.wrong.append((name, body))
        elif status not in TRY_AGAIN:
            self.wrong.append((name, status, body))

    def describe(self) -> str:
        return "; ".join(
            f"{len(seconds)} {what}, p50 {_find_rank(seconds, 50) * 1000:.0f} ms, "
            f"p99 {_find_rank(seconds, 99) * 1000:.0f} ms"
            for what, seconds in (("writes", self.write_seconds), ("reads", self.read_seconds))
        )


def _find_rank(seconds: list[float], percent: int) -> float:
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else 0.0
