"""Whether a Spark that was named can be reached, found out before minutes are spent on trying.

Spark itself asks a master that is not there for a minute and a Connect server for ten, and then
complains about something else.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence

from omnigraph.errors import BadRequest, StorageFailure, StorageKind

CONNECT_PORT = 15002
MASTER_PORT = 7077
_PATIENCE_S = 10.0
_MASTERS = ("local", "spark://", "k8s://", "yarn")
_PROXIES = ("https_proxy", "http_proxy", "grpc_proxy", "all_proxy")


def require_master(master: str) -> None:
    """Raise unless this is a master Spark knows and, for one of its own kind, somebody answers."""
    if not master.startswith(_MASTERS):
        raise BadRequest(
            f"'{master}' is not a Spark master: write local[2], spark://host:7077, yarn or k8s://…"
        )
    if master.startswith("spark://"):
        named = master.removeprefix("spark://").split(",")
        _require_answer("Spark master", [_parse_address(one, MASTER_PORT) for one in named])


def require_server(remote: str) -> None:
    """Raise unless somebody answers where this Connect server should be."""
    is_behind_proxy = any(os.environ.get(name) or os.environ.get(name.upper()) for name in _PROXIES)
    if remote.startswith("local") or is_behind_proxy:
        return
    if not remote.startswith("sc://"):
        raise BadRequest(
            f"'{remote}' is not a Spark Connect server: write sc://host:{CONNECT_PORT}"
        )
    authority = re.split("[/;]", remote.removeprefix("sc://"), maxsplit=1)[0]
    _require_answer("Spark Connect server", [_parse_address(authority, CONNECT_PORT)])


def _parse_address(text: str, port: int) -> tuple[str, int]:
    """Host and port of `host:port`, where an IPv6 address is in brackets."""
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]+)(?::(\d+))?", text.strip())
    if found is None:
        raise BadRequest(f"'{text}' is not an address: write host:port")
    return found[1].strip("[]"), int(found[2] or port)


def _require_answer(what: str, addresses: Sequence[tuple[str, int]]) -> None:
    troubles = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), _PATIENCE_S).close()
        except OSError as error:
            troubles.append(f"{host}:{port} ({error.strerror or error})")
        else:
            return
    raise StorageFailure(
        StorageKind.TRANSIENT,
        f"no {what} answers at {', '.join(troubles)}: start it or name another one; nothing was "
        "changed. Without SPARK_REMOTE and OMNIGRAPH_SPARK_MASTER work runs on this machine.",
    )
