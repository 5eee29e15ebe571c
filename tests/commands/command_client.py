"""`omnigraph` with the arguments after the first, which says where `command_server.py` listens."""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    order = {
        "arguments": sys.argv[2:],
        "folder": os.getcwd(),  # noqa: PTH109 - pathlib takes long to load
        "environment": dict(os.environ),
    }
    text = json.dumps(order).encode()
    socket.send_fds(connection, [len(text).to_bytes(8, "big")], [0, 1, 2])
    connection.sendall(text)
    code = int(connection.recv(8) or 1)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
