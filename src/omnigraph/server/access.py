"""Who may do what: the state a server runs in, and the policy its requests are decided by."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.errors import BadRequest
from omnigraph.policy import Action, Authority, NoPolicy, authorize

__all__ = ["Action", "Authority", "NoPolicy", "RuntimeState", "authorize", "classify_state"]


class RuntimeState(StrEnum):
    """What a server does about requests, by what it was given."""

    OPEN = "open"
    DEFAULT_DENY = "default_deny"
    POLICY_ENABLED = "policy_enabled"


def classify_state(*, has_tokens: bool, has_policy: bool, is_unauthenticated: bool) -> RuntimeState:
    """The state for what a server was given.

    Raises:
        BadRequest: nobody could be served, or everybody without having been told so.
    """
    if has_policy and not has_tokens:
        raise BadRequest(
            "there is a policy and no token, so every request would be refused; give tokens by "
            "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
        )
    if has_policy:
        return RuntimeState.POLICY_ENABLED
    if has_tokens:
        return RuntimeState.DEFAULT_DENY
    if not is_unauthenticated:
        raise BadRequest(
            "there are no tokens; give some by OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or pass "
            "--unauthenticated to let everybody in who reaches the port"
        )
    return RuntimeState.OPEN
