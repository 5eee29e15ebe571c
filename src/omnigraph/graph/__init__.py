"""The embedded graph: its verbs, authorization, idempotency and revisions.

`graph` is the table of contents; each verb lives in a module of its own.
"""
