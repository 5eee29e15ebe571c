"""The command line, `omnigraph`.

A command parses its arguments, calls the library and renders the result. Nothing heavy is
imported before a command runs: help and version must answer at once.
"""
