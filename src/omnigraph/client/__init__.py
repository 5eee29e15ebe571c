"""Graphs behind a server: the methods, results and errors of an embedded graph, over HTTP."""
