"""Clusters: graphs, schemas, stored queries and policies as files, planned and applied.

The configuration, in git, says what shall be there. The ledger, in the storage root, says what was
applied. A server serves what was applied and nothing else.
"""
