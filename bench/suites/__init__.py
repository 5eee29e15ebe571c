"""One module per suite, each declaring `SUITE`; `python -m bench --list` shows them.

A suite module is imported by the parent process, so it holds declarations only: a heavy import
here would weigh on every sample.
"""
