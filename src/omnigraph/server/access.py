"""Who may do what: the state a server runs in, and the one place where a request is authorized."""

from __future__ import annotations

from enum import StrEnum

from omnigraph.errors import ActionDenied, BadRequest


class Action(StrEnum):
    """What a request does, as a policy calls it."""

    READ = "read"
    EXPORT = "export"
    CHANGE = "change"
    BRANCH_CREATE = "branch_create"
    BRANCH_DELETE = "branch_delete"
    BRANCH_MERGE = "branch_merge"
    SCHEMA_APPLY = "schema_apply"
    INVOKE_QUERY = "invoke_query"
    GRAPH_LIST = "graph_list"


class NoPolicy(StrEnum):
    """What holds where there is no bundle."""

    OPEN = "open"
    DEFAULT_DENY = "default_deny"


Authority = NoPolicy


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


def authorize(
    authority: Authority,
    actor: str | None,
    action: Action,
    *,
    branch: str | None = None,
    target_branch: str | None = None,
) -> None:
    """Return if the actor may do this.

    Raises:
        ActionDenied: it may not.
    """
    if authority is NoPolicy.OPEN and action is not Action.GRAPH_LIST:
        return
    if authority is NoPolicy.DEFAULT_DENY and action is Action.READ and actor is not None:
        return
    where = "".join(
        f" {what} '{name}'"
        for what, name in (("on branch", branch), ("for branch", target_branch))
        if name is not None
    )
    who = "anonymous" if actor is None else f"'{actor}'"
    raise ActionDenied(str(action), f"policy denied action '{action}'{where} to {who}")
