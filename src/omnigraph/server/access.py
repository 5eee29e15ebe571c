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
        BadRequest: it could serve nobody, or would serve everybody without having been asked to.
    """
    if has_policy and not has_tokens:
        raise BadRequest(
            "there is a policy but no token, so every request would be refused; set "
            "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE"
        )
    if has_policy:
        return RuntimeState.POLICY_ENABLED
    if has_tokens:
        return RuntimeState.DEFAULT_DENY
    if not is_unauthenticated:
        raise BadRequest(
            "there are no tokens; set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or pass "
            "--unauthenticated to serve anyone who can reach the port"
        )
    return RuntimeState.OPEN
