"""The writer fence: one writer at a time for each graph root, in whatever process it runs.

`local.py` does it with a lock of the operating system, `lease.py` with an object that is only
ever replaced conditionally, and `process.py` among the threads of one process, which the other
two stand on. `open.py` picks one. Readers take no fence.
"""
