"""The HTTP server: graphs shared with people, services and agents.

Requests are read and answers are sent on the event loop; the engine runs in threads. Several
processes may serve the same graphs, because the writer fence keeps their writes apart.
"""
