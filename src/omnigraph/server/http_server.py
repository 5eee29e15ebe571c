"""Run one worker: listen, answer requests, drain, and reload on SIGHUP.

The first stop signal lets requests finish; when they exceed the grace period, or on a second
signal, the process exits at once with code 2. Writes in progress count as requests.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

import structlog
import uvicorn

from omnigraph.errors import BadRequest
from omnigraph.server.application import make_application
from omnigraph.server.server_logs import set_up_logging
from omnigraph.server.service import Service, open_service
from omnigraph.server.serving_config import Address, ServeOptions
from omnigraph.server.telemetry import serve_metrics

LISTENING = "OMNIGRAPH_LISTEN_ADDR="
"""Prefix of the listen address in the only line written to stdout."""
EXIT_DEADLINE = 2
_BACKLOG = 2_048
_KEEP_ALIVE_S = 75
"""Idle time of a connection before it is closed: longer than that of most proxies."""

_log = structlog.get_logger("omnigraph.server")


def run_alone(options: ServeOptions) -> int:
    """Serve with this process as the only worker; return the exit code."""
    set_up_logging(options.server)
    # Until everything is open there is nothing to reload.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with open_socket(Address.parse(options.server.bind)) as listener:
        return run_worker(options, listener, lambda: announce(listener))


def run_worker(
    options: ServeOptions,
    listener: socket.socket,
    on_ready: Callable[[], None],
    lifeline: int | None = None,
    *,
    has_metrics: bool = True,
) -> int:
    """Open the graphs and answer requests until a stop signal; return the exit code.

    Args:
        options: The options of the worker.
        listener: The listening socket; workers may share it.
        on_ready: Called once requests are accepted.
        lifeline: A pipe that closes when the parent process exits.
        has_metrics: Whether this process serves metrics itself.
    """
    with open_service(options) as service:
        address = options.server.metrics_bind if has_metrics else None
        stop_metrics = None
        if address is not None:
            stop_metrics = serve_metrics(Address.parse(address), service.metrics.registry)
        server = _Server(service, on_ready)
        try:
            with asyncio.Runner(loop_factory=_choose_loop()) as runner:
                code = runner.run(_serve(server, service, listener, lifeline))
        finally:
            if stop_metrics is not None:
                stop_metrics()
        _log.info("stopped", exit_code=code)
        if code:
            exit_now(code)
    return code


def _choose_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop  # noqa: PLC0415 - faster, where it exists
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _serve(
    server: _Server, service: Service, listener: socket.socket, lifeline: int | None
) -> int:
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Task[None]] = set()

    def stop() -> None:
        if service.is_draining:
            exit_now(EXIT_DEADLINE)
        _log.info("draining", grace_seconds=service.options.server.grace_s)
        service.is_draining = True
        server.should_exit = True

    def end_with_parent(lifeline: int) -> None:
        loop.remove_reader(lifeline)
        stop()

    def reload() -> None:
        task = asyncio.ensure_future(service.reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, reload)
    if lifeline is not None:
        loop.add_reader(lifeline, end_with_parent, lifeline)
    background = [asyncio.ensure_future(one) for one in service.list_background_tasks()]
    try:
        await server.serve([listener])
    finally:
        for one in background:
            one.cancel()
    if not server.has_started:
        return 1
    if server.is_overdue:
        return EXIT_DEADLINE
    # Writes of disconnected clients are completed as well, within the same grace period.
    try:
        async with asyncio.timeout(service.options.server.grace_s):
            await asyncio.to_thread(service.threads.finish_writes)
    except TimeoutError:
        return EXIT_DEADLINE
    return 0


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to this module and reports readiness and timeouts."""

    def __init__(self, service: Service, on_ready: Callable[[], None]) -> None:
        grace_s = service.options.server.grace_s
        super().__init__(
            uvicorn.Config(
                make_application(service),
                http="httptools",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=max(1, round(grace_s)),
            )
        )
        self._on_ready = on_ready
        self.has_started, self.is_overdue = False, False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.has_started = True
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        self.is_overdue = bool(self.server_state.tasks)


def open_socket(address: Address) -> socket.socket:
    """Open the listening socket.

    Raises:
        BadRequest: the address is in use, or not one of this machine.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadRequest(f"cannot listen at {address}: {reason}") from error


def announce(listener: socket.socket) -> None:
    """Write the listen address to stdout; nothing else is ever written there."""
    host, port = listener.getsockname()[:2]
    sys.stdout.write(f"{LISTENING}{Address(host, port)}\n")
    sys.stdout.flush()
    _log.info("serving", address=str(Address(host, port)))


def exit_now(code: int) -> NoReturn:
    """Exit without waiting for threads: the engine cannot be interrupted."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
