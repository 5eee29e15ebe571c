"""The HTTP interface shared by server and client: routes, bodies, headers and errors.

Plain values, without any framework and without the engine, so that the server, a client and the
command line use the same ones.
"""
