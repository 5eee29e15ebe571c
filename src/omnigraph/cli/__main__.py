"""`python -m omnigraph.cli` is the same as `omnigraph`."""

from omnigraph.cli.main import main

main()
