"""What the commands of a cluster print for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.cluster.cluster_changes import ClusterChange
    from omnigraph.cluster.cluster_results import (
        ApproveResult,
        ClusterApplyResult,
        ClusterStatus,
        PlanResult,
        UnlockResult,
        ValidateResult,
    )

_SIGNS = {"create": "+", "update": "~", "delete": "-"}


def render_validated(result: ValidateResult) -> Iterator[str]:
    if result.ok:
        yield f"{result.config_file}: {_count(len(result.resources), 'resource')}, no mistakes"


def render_plan(result: PlanResult) -> Iterator[str]:
    if not result.ok:
        return
    yield from _render_changes(result.changes)
    for reach in result.blast_radius:
        affected = reach["affected"]
        assert isinstance(affected, list)
        yield f"{reach['resource']} affects {', '.join(affected)}"
    for approval in result.approvals_required:
        state = "approved" if approval.satisfied else "needs an approval"
        yield f"{approval.resource} {state}: {approval.reason}"
    if not result.changes:
        yield "no changes: the cluster matches the configuration"
        return
    stopped = sum(not change.is_carried_out for change in result.changes)
    waiting = f", {stopped} of them cannot be made yet" if stopped else ""
    yield f"{_count(len(result.changes), 'change')}{waiting}"


def render_applied(result: ClusterApplyResult) -> Iterator[str]:
    yield from _render_changes(result.changes)
    if not result.changes and result.ok:
        yield "no changes: the cluster matches the configuration"
        return
    word = "converged" if result.converged else "not converged"
    yield (
        f"{result.applied_count} of {_count(len(result.changes), 'change')} applied, {word} "
        f"(revision {result.state.state_revision})"
    )


def render_approved(result: ApproveResult) -> Iterator[str]:
    if result.approval_id is not None:
        yield (
            f"{result.approved_by} may {result.operation} {result.resource} "
            f"(approval {result.approval_id})"
        )


def render_status(result: ClusterStatus) -> Iterator[str]:
    for address, status in sorted(result.resource_statuses.items()):
        why = f" ({', '.join(status.conditions)})" if status.conditions else ""
        yield f"{status.status:<8}  {address}{why}"
    if result.state.state_found:
        digest = result.state.applied_config_digest
        applied = (
            f"configuration {digest[:12]}" if digest else "no configuration was applied completely"
        )
        yield f"revision {result.state.state_revision}, {applied}"


def render_unlocked(result: UnlockResult) -> Iterator[str]:
    if result.lock_removed and result.state.lock is not None:
        yield f"removed the lock {result.state.lock.lock_id}"


def _render_changes(changes: tuple[ClusterChange, ...]) -> Iterator[str]:
    for change in changes:
        why = f" ({change.reason})" if change.reason else ""
        is_plain = change.disposition is None or str(change.disposition) == "applied"
        word = "" if is_plain else f"  {change.disposition}{why}"
        what = f"  {change.metadata_change}" if change.metadata_change else ""
        yield f"{_SIGNS[change.operation]} {change.operation} {change.resource}{what}{word}"
        steps = (change.migration or {}).get("steps")
        assert steps is None or isinstance(steps, list)
        for step in steps or ():
            yield f"    - {_describe_step(step)}"


def _describe_step(step: dict[str, object]) -> str:
    """A step of a schema in one line: its kind, and what it is about."""
    about = [str(step[name]) for name in ("type_name", "name", "property_name") if step.get(name)]
    place = ".".join(about) or str(step.get("entity", ""))
    reason = f": {step['reason']}" if step.get("reason") else ""
    return f"{str(step['kind']).replace('_', ' ')} {place}{reason}".rstrip()


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
