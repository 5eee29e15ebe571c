"""The writer fence: one writer at a time for each graph root, in whatever process it runs.

`local_fence.py` uses a lock of the operating system, `lease.py` an object that is only ever
replaced conditionally, and both build on `process.py`, which separates the threads of one process.
`open_fence.py` picks one. Readers take no fence.
"""
