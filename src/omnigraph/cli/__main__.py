"""`python -m omnigraph.cli` is the same as `omnigraph`."""

import os
import signal

# While modules are still being loaded, an interrupt ends the process at once and without a word.
signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from omnigraph.cli.main import main as main  # noqa: E402

if __name__ == "__main__":
    main()
