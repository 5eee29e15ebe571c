"""Writes that are made once, although connections get lost.

Every write carries a key. Where no answer comes, the write is looked up by its key; only then is
it sent again, under the same key, so that the server answers with what it has done or does it now.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

from omnigraph.client.http_connection import (
    ClientRequest,
    ConnectionLost,
    ServerAnswer,
    ServerConnection,
)
from omnigraph.errors import (
    OmniError,
    OutcomeUnknown,
    ServerError,
    UnexpectedAnswer,
)
from omnigraph.wire.http_names import IDEMPOTENCY_KEY, REPLAYED

T = TypeVar("T")

_PAUSES_S = (0.0, 0.2, 1.0)
"""Before each look: a server finishes a write whose client has left."""


def make_key(given: str | None) -> str:
    return uuid4().hex if given is None else given


def send_write(
    connection: ServerConnection, request: ClientRequest, key: str, branch: str
) -> ServerAnswer:
    """The whole answer to a write, which is made at most once; see `send_once`."""
    return send_once(connection, connection.ask, request, key, branch)


def send_once(
    connection: ServerConnection,
    send: Callable[[ClientRequest], T],
    request: ClientRequest,
    key: str,
    branch: str,
) -> T:
    """What `send` makes of a write, which is made at most once.

    Raises:
        OutcomeUnknown: no answer came, and nothing could be found out.
    """
    keyed = request.with_headers({IDEMPOTENCY_KEY: key})
    try:
        return send(keyed)
    except (ConnectionLost, UnexpectedAnswer) as lost:
        if isinstance(lost, UnexpectedAnswer) and lost.status < 500:
            raise
        if not _has_answered(connection, key, branch):
            raise _describe_unknown(request, key, lost) from lost
    try:
        return send(keyed)
    except ServerError as lost:
        raise _describe_unknown(request, key, lost) from lost


def _has_answered(connection: ServerConnection, key: str, branch: str) -> bool:
    """Wait for a write to be found, which may also not have arrived; False if nobody answers."""
    request = ClientRequest("getWrite", path={"key": key}, parameters=(("branch", branch),))
    answered = False
    for pause in _PAUSES_S:
        time.sleep(pause)
        try:
            connection.ask(request)
        except ServerError:
            continue
        except OmniError:
            answered = True  # not made yet, or not to be told: it is made once all the same
        else:
            return True
    return answered


def send_keyless(connection: ServerConnection, request: ClientRequest) -> ServerAnswer:
    """The answer to a change that takes no key.

    Raises:
        OutcomeUnknown: no answer came.
    """
    try:
        return connection.ask(request)
    except ConnectionLost as lost:
        what = f"'{request.operation}' at {connection.address.url}"
        raise OutcomeUnknown(what, lost.reason) from lost


def is_replayed(answer: ServerAnswer) -> bool:
    """Whether a write had been made before, under the same key."""
    return answer.headers.get(REPLAYED) == "true"


def _describe_unknown(request: ClientRequest, key: str, lost: ServerError) -> OutcomeUnknown:
    what = (
        f"'{request.operation}' with the idempotency key '{key}', which can be looked up with "
        "`find_write` or sent again"
    )
    return OutcomeUnknown(what, str(lost))
