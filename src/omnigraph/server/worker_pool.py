"""Several worker processes behind one socket.

The first process listens and answers no request: it starts the workers, replaces one that dies,
and forwards signals. The workers write one graph concurrently, which the writer fence makes
safe. `python -m omnigraph.server.worker_pool` is such a worker; its arguments are three file
descriptors (the listening socket, the pipe to report readiness on, and a pipe that closes with
the first process) and the flags of `serve` as JSON.
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
from omnigraph.typed_reading import decode_into

RESTART_S = 0.5
"""How long to wait before a worker that died is replaced."""
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which the metrics library learns of a folder that all workers write to."""
_KILL_AFTER_S = 5.0
_READY = b"."

_log = structlog.get_logger("omnigraph.server")


def run_workers(options: ServeOptions, flags: ServeFlags) -> int:
    """Serve with several processes, which read the same flags; gives the exit code."""
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
    # Loaded only now: it looks at the environment for the folder of the workers.
    from omnigraph.server.telemetry import add_up_workers, serve_metrics  # noqa: PLC0415

    return serve_metrics(address, add_up_workers(os.environ[SHARED_FOLDER]))


@dataclass
class _Pool:
    options: ServeOptions
    flags: ServeFlags
    listener: socket.socket
    lifeline: int
    code: int = 0
    reloads: int = 0
    """How often a reload was asked for."""
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
            await self._end_all()
            return failed.code
        announce(self.listener)
        async with asyncio.TaskGroup() as group:
            for process in started:
                group.create_task(self._keep(process))
        return self.code

    async def _keep(self, process: asyncio.subprocess.Process) -> None:
        """Wait for a worker to end, and start another one unless that is what was asked for."""
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
            _forget_metrics(process.pid)

    async def _start(self) -> asyncio.subprocess.Process:
        """A worker that answers requests."""
        reading, writing = os.pipe()
        reloads = self.reloads
        command = [sys.executable, "-m", "omnigraph.server.worker_pool"]
        command += [str(self.listener.fileno()), str(writing), str(self.lifeline)]
        command.append(msgspec.json.encode(self.flags).decode())
        handed_on = (self.listener.fileno(), writing, self.lifeline)
        try:
            process = await asyncio.create_subprocess_exec(
                *command, pass_fds=handed_on, start_new_session=True
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
        """Pass the signal on; a worker that is being started would end by it, and gets it later."""
        self.reloads += 1
        self._pass_on(signal.SIGHUP, but=self._starting)

    def _stop(self) -> None:
        if self._stopping.is_set():
            self._pass_on(signal.SIGTERM)  # the second signal ends a worker at once
            return
        self._stopping.set()
        self._pass_on(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        loop.call_later(self.options.server.grace_s * 2 + _KILL_AFTER_S, self._kill)

    def _kill(self) -> None:
        self.code = EXIT_DEADLINE
        self._pass_on(signal.SIGKILL)

    def _pass_on(self, number: signal.Signals, but: Collection[int] = ()) -> None:
        for process in tuple(self._running.values()):
            if process.pid not in but:
                with suppress(ProcessLookupError):
                    process.send_signal(number)

    async def _end_all(self) -> None:
        for process in tuple(self._running.values()):
            await self._wait(process)


class _WorkerFailed(Exception):
    """A worker ended before it was ready; it has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"a worker ended with {code}")
        self.code = code


def _forget_metrics(pid: int) -> None:
    """Forget what a dead worker had in progress; its counters stay."""
    from prometheus_client.multiprocess import mark_process_dead  # noqa: PLC0415

    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def main(arguments: list[str]) -> int:
    """Serve until told to stop; gives the exit code."""
    listener, ready, lifeline = (int(text) for text in arguments[:3])

    def tell_ready() -> None:
        os.write(ready, b".")
        os.close(ready)

    try:
        flags = decode_into(arguments[3], ServeFlags)
        options = read_options(flags, os.environ)
        set_up_logging(options.server)
        with socket.socket(fileno=listener) as inherited:
            return run_worker(options, inherited, tell_ready, lifeline, has_metrics=False)
    except OmniError as error:
        sys.stderr.writelines(f"error: {line}\n" for line in list_problems(error))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
