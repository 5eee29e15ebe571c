"""`python -m omnigraph` is the same as the command `omnigraph`."""

from omnigraph.cli.__main__ import main

if __name__ == "__main__":
    main()
