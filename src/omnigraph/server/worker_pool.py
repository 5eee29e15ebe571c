"""Several worker processes behind one socket.

The parent process listens and answers no request: it starts the workers, replaces one that dies,
and forwards signals. The workers write one graph concurrently, which the writer fence makes
safe. `python -m omnigraph.server.worker_pool` is such a worker; its arguments are three file
descriptors (the listening socket, the pipe to report readiness on, and a pipe that closes with
the parent) and the flags of `serve` as JSON.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import msgspec
import structlog

from omnigraph.errors import OmniError
from omnigraph.server.http_server import EXIT_DEADLINE, announce, open_socket, run_worker
from omnigraph.server.server_logs import set_up_logging
from omnigraph.server.serving_config import (
    Address,
    ServeFlags,
    ServeOptions,
    list_problems,
    pin_cluster,
    read_options,
)
from omnigraph.struct_decoding import decode_into

RESTART_S = 0.5
"""Delay before a dead worker is replaced."""
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder of the metrics library shared by all workers."""
_KILL_AFTER_S = 5.0
_READY = b"."

_log = structlog.get_logger("omnigraph.server")


def run_workers(options: ServeOptions, flags: ServeFlags) -> int:
    """Serve with several worker processes; return the exit code."""
    set_up_logging(options.server)
    with ExitStack() as resources:
        folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="omnigraph-metrics-"))
        os.environ[SHARED_FOLDER] = folder
        listener = resources.enter_context(open_socket(Address.parse(options.server.bind)))
        listener.set_inheritable(True)
        if options.server.metrics_bind is not None:
            resources.callback(_serve_shared_metrics(Address.parse(options.server.metrics_bind)))
        lifeline, alive = os.pipe()
        resources.callback(os.close, lifeline)
        resources.callback(os.close, alive)
        pool = _Pool(options, pin_cluster(flags, options), listener, lifeline)
        return asyncio.run(pool.run())


def _serve_shared_metrics(address: Address) -> Callable[[], None]:
    # Imported only now: the library reads the folder of the workers from the environment.
    from omnigraph.server.telemetry import aggregate_workers, serve_metrics  # noqa: PLC0415

    return serve_metrics(address, aggregate_workers(os.environ[SHARED_FOLDER]))


@dataclass
class _Pool:
    options: ServeOptions
    flags: ServeFlags
    listener: socket.socket
    lifeline: int
    code: int = 0
    reloads: int = 0
    """Number of reloads requested."""
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _running: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)
    _starting: set[int] = field(default_factory=set)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        ready = asyncio.gather(*(self._start() for _ in range(self.options.workers)))
        try:
            started = await ready
        except _WorkerFailed as failed:
            self._stop()
            await self._wait_for_all()
            return failed.code
        announce(self.listener)
        async with asyncio.TaskGroup() as group:
            for process in started:
                group.create_task(self._supervise(process))
        return self.code

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        """Wait for a worker to exit, and replace it unless the pool is stopping."""
        while True:
            code = await self._wait(process)
            if self._stopping.is_set():
                self.code = max(self.code, abs(code))
                return
            _log.warning("a worker died and is being replaced", pid=process.pid, code=code)
            while True:
                await asyncio.sleep(RESTART_S)
                if self._stopping.is_set():
                    return
                try:
                    process = await self._start()
                    break
                except _WorkerFailed as failed:
                    _log.error("a worker could not be started", code=failed.code)

    async def _wait(self, process: asyncio.subprocess.Process) -> int:
        try:
            return await process.wait()
        finally:
            self._running.pop(process.pid, None)
            _drop_metrics(process.pid)

    async def _start(self) -> asyncio.subprocess.Process:
        """Start a worker and wait until it is ready."""
        reading, writing = os.pipe()
        reloads = self.reloads
        command = [sys.executable, "-m", "omnigraph.server.worker_pool"]
        command += [str(self.listener.fileno()), str(writing), str(self.lifeline)]
        command.append(msgspec.json.encode(self.flags).decode())
        inherited_fds = (self.listener.fileno(), writing, self.lifeline)
        try:
            process = await asyncio.create_subprocess_exec(
                *command, pass_fds=inherited_fds, start_new_session=True
            )
        finally:
            os.close(writing)
        self._running[process.pid] = process
        self._starting.add(process.pid)
        if self._stopping.is_set():
            process.terminate()
        try:
            is_ready = await asyncio.to_thread(os.read, reading, 1) == _READY
        finally:
            os.close(reading)
            self._starting.discard(process.pid)
        if not is_ready:
            raise _WorkerFailed(abs(await self._wait(process)) or 1)
        if reloads != self.reloads:
            process.send_signal(signal.SIGHUP)
        return process

    def _reload(self) -> None:
        """Forward the signal; a starting worker would die of it, and gets it once it is ready."""
        self.reloads += 1
        self._forward(signal.SIGHUP, but=self._starting)

    def _stop(self) -> None:
        if self._stopping.is_set():
            self._forward(signal.SIGTERM)  # the second signal ends a worker at once
            return
        self._stopping.set()
        self._forward(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(self.options.server.grace_s * 2 + _KILL_AFTER_S, self._kill)

    def _kill(self) -> None:
        self.code = EXIT_DEADLINE
        self._forward(signal.SIGKILL)

    def _forward(self, number: signal.Signals, but: Collection[int] = ()) -> None:
        for process in tuple(self._running.values()):
            if process.pid not in but:
                with suppress(ProcessLookupError):
                    process.send_signal(number)

    async def _wait_for_all(self) -> None:
        for process in tuple(self._running.values()):
            await self._wait(process)


class _WorkerFailed(Exception):
    """A worker exited before it was ready; it has logged the reason."""

    def __init__(self, code: int) -> None:
        super().__init__(f"a worker exited with {code}")
        self.code = code


def _drop_metrics(pid: int) -> None:
    """Drop the gauges of a dead worker; its counters stay."""
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def main(arguments: list[str]) -> int:
    """Run one worker until it is stopped; return the exit code."""
    listener, ready, lifeline = (int(text) for text in arguments[:3])

    def report_ready() -> None:
        os.write(ready, b".")
        os.close(ready)

    try:
        flags = decode_into(arguments[3], ServeFlags)
        options = read_options(flags, os.environ)
        set_up_logging(options.server)
        with socket.socket(fileno=listener) as inherited:
            return run_worker(options, inherited, report_ready, lifeline, has_metrics=False)
    except OmniError as error:
        sys.stderr.writelines(f"error: {line}\n" for line in list_problems(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
