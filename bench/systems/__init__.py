"""The systems under measurement: functions from a spec to timings and a result hash.

A system runs in its own process and never sees another one, so peers whose native libraries
cannot share a process can still be compared.
"""
