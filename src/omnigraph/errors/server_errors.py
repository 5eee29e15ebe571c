"""What to do: look at the address, the network and the server. Only clients raise these."""

from __future__ import annotations

from omnigraph.errors.omni_error import OmniError


class ServerError(OmniError):
    """A server that a client cannot talk to."""

    code = "server"


class ServerUnreachable(ServerError):
    """No connection to a server, or one that was lost before the answer was complete."""

    code = "server_unreachable"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot talk to the server at {url}: {reason}")
        self.url, self.reason = url, reason


class UnexpectedAnswer(ServerError):
    """An answer no OmniGraph server gives; perhaps one of something in between."""

    code = "unexpected_answer"

    def __init__(self, url: str, status: int, reason: str) -> None:
        super().__init__(f"{url} answered {status}, not as an OmniGraph server does: {reason}")
        self.url, self.status, self.reason = url, status, reason
