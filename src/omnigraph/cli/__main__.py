"""`python -m omnigraph.cli` is the same as `omnigraph`."""

import os
import signal
import sys

# While modules are still being loaded, an interrupt ends the process at once and without a word.
signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from omnigraph.cli.main import main as main  # noqa: E402


def serve() -> None:
    """`omnigraph-server` is the same as `omnigraph serve`."""
    main(["serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()
