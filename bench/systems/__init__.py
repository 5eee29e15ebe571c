"""The systems under measurement: functions taking a spec and giving back timings and a result hash.

A system runs in its own process and never sees another one, so peers whose native libraries
cannot share a process can still be compared.
"""
