"""The embedded graph: everything a program can do with one, and the only code that publishes.

`graph` is the table of contents; each verb lives in a module of its own.
"""
