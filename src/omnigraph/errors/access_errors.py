"""Errors about what the actor may not do: ask for the right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from omnigraph.errors.omni_error import DeniedError, JsonValue


class NotAuthenticated(DeniedError):
    """A request without a token, or with one that is unknown or expired."""

    code = "unauthorized"
    http_status = 401
    wire_code: ClassVar[str] = "unauthorized"


class PolicyDenied(DeniedError):
    """A policy does not allow it: the action, or a type or property that it would read."""

    code = "policy_denied"

    def __init__(
        self,
        message: str,
        *,
        actor: str | None,
        action: str,
        branch: str | None = None,
        target_branch: str | None = None,
        query: str | None = None,
        hidden: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.actor, self.action = actor, action
        self.branch, self.target_branch, self.query = branch, target_branch, query
        self.hidden = tuple(hidden)
        """The types and properties that the actor may not see."""

    def details(self) -> Mapping[str, JsonValue]:
        optional = {
            "branch": self.branch,
            "target_branch": self.target_branch,
            "query": self.query,
            "hidden": list(self.hidden) or None,
        }
        facts = {name: value for name, value in optional.items() if value is not None}
        return {"policy_denied": {"action": str(self.action), "actor": self.actor, **facts}}
