"""`python -m omnigraph.server.worker_main`: one of several workers, started by the first process.

Its arguments are three file descriptors, the socket to listen at, where to say that it is ready,
and a pipe that ends with the process that started it; after them come the flags of
`serve`, as JSON.
"""

from __future__ import annotations

import os
import socket
import sys

from omnigraph.errors import OmniError
from omnigraph.server.http_server import run_worker
from omnigraph.server.request_log import set_up_logging
from omnigraph.server.serve_options import ServeFlags, read_options
from omnigraph.typed_reading import decode_into


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
        sys.stderr.write(f"error: {error.message}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
