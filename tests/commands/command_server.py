"""Runs `omnigraph` for tests, each command in a process of its own that is loaded already.

This process loads the package once and forks for every command that `command_client.py` brings.
The command has the arguments, folder, environment and open files of the client, which ends as the
command ended; if the client is killed, so is the command. The server ends with its standard input.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys

from commands.preloading import load_modules
from omnigraph.cli.main import main


def serve(place: str) -> None:
    """Fork for each command; comes back in the process of a command, to run it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("listening", flush=True)
        load_modules()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:
                os._exit(0)
            connection, _ = listener.accept()
            if os.fork() == 0:
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    attend(connection)


def attend(connection: socket.socket) -> None:
    """Report the exit of a command to its client; returns in the process of the command."""
    size, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as stream:
        order = json.loads(stream.read(int.from_bytes(size, "big")))
    is_over, stays_open = os.pipe()
    command = os.fork()
    if command == 0:
        connection.close()
        os.close(is_over)
        take_place(order, files)
        return
    for file in (stays_open, *files):
        os.close(file)
    ready, _, _ = select.select([is_over, connection], [], [])
    if connection in ready:
        os.kill(command, signal.SIGKILL)
    _, status = os.waitpid(command, 0)
    if connection not in ready:
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def take_place(order: dict, files: list[int]) -> None:
    """Be where and what the client is."""
    for own, given in enumerate(files):
        os.dup2(given, own)
        os.close(given)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = ["omnigraph", *order["arguments"]]
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    serve(sys.argv[1])
    main()
