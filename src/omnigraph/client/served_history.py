"""The verbs about branches and history of a served graph."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from omnigraph.client.http_connection import ClientRequest
from omnigraph.client.sent_writes import is_replayed, make_key, send_keyless, send_write
from omnigraph.client.served_view import refuse_engine
from omnigraph.client.served_writing import ServedWriting
from omnigraph.client.unserved import refuse_actor
from omnigraph.client.wire_reading import (
    read_apply,
    read_consumer,
    read_entity_history,
    read_made_branch,
    read_merge,
    read_tag,
)
from omnigraph.errors import BadRequest
from omnigraph.graph.engines import MergeEngineName
from omnigraph.graph.place_names import PlaceLike, name_optional_place, name_place
from omnigraph.graph.results import Commit, Consumer, MadeBranch, Tag
from omnigraph.typed_reading import convert_into
from omnigraph.wire import request_bodies as asks
from omnigraph.wire import response_bodies as bodies

if TYPE_CHECKING:
    from omnigraph.client.served_diff import ServedDiff
    from omnigraph.graph.merging import MergeResult
    from omnigraph.graph.undoing import ApplyResult
    from omnigraph.history.entity_history import EntityHistory

Rules = str | Mapping[str, str] | Sequence[str] | None
Decisions = str | Path | Sequence[Mapping[str, object]]


class ServedHistory(ServedWriting):
    """Branching off, merging and undoing through a server."""

    def create_branch(
        self,
        name: str,
        *,
        source: str | None = None,
        commit: PlaceLike | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> MadeBranch:
        """Create a branch from another one, or from a commit. Copies nothing."""
        refuse_actor(actor)
        where = self._choose(source)
        start = self._find_head(commit, source)
        body = asks.BranchCreateRequest(name=name, source=where, commit=start)
        request = ClientRequest("createBranch", body=body)
        answer = send_write(self._connection, request, make_key(idempotency_key), where)
        made = self._connection.decode(answer, bodies.BranchCreateOutput)
        return read_made_branch(made, is_replayed=is_replayed(answer))

    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        delete_branch: bool = False,
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: MergeEngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> MergeResult:
        """Merge a branch into another one, as one commit or not at all."""
        refuse_actor(actor)
        refuse_engine(engine, session, spark_conf)
        target = self._choose(into)
        body = asks.BranchMergeRequest(
            source=source,
            target=target,
            dry_run=dry_run,
            resolve=_as_rules(resolve),
            decisions=_as_decisions(decisions),
            delete_branch=delete_branch,
            expected_head=self._find_head(expected_head, into),
            message=message,
        )
        request = ClientRequest("mergeBranches", body=body)
        answer = send_write(self._connection, request, make_key(idempotency_key), target)
        done = self._connection.decode(answer, bodies.BranchMergeOutput)
        return read_merge(done, is_replayed=is_replayed(answer))

    # --- undoing --------------------------------------------------------------------------------

    def revert(
        self,
        commit: PlaceLike,
        *,
        branch: str | None = None,
        parent: int | None = None,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Undo what one commit did, as a new commit; what came after it stays."""
        refuse_actor(actor)
        body = self._ask_for_commit(
            commit, branch, parent, resolve, decisions, expected_head, message, dry_run=dry_run
        )
        return self._apply(ClientRequest("revert", body=body), idempotency_key)

    def cherry_pick(
        self,
        commit: PlaceLike,
        *,
        branch: str | None = None,
        parent: int | None = None,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Do what one commit of any branch did on this branch as well, as a new commit."""
        refuse_actor(actor)
        body = self._ask_for_commit(
            commit, branch, parent, resolve, decisions, expected_head, message, dry_run=dry_run
        )
        return self._apply(ClientRequest("cherryPick", body=body), idempotency_key)

    def restore(
        self,
        place: PlaceLike,
        *,
        branch: str | None = None,
        dry_run: bool = False,
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Set a branch to what it was at a place, as a new commit; no commit is lost."""
        refuse_actor(actor)
        body = asks.RestoreRequest(
            place=name_place(place),
            branch=self._choose(branch),
            dry_run=dry_run,
            expected_head=self._find_head(expected_head, branch),
            message=message,
        )
        return self._apply(ClientRequest("restore", body=body), idempotency_key)

    def _ask_for_commit(
        self,
        commit: PlaceLike,
        branch: str | None,
        parent: int | None,
        resolve: Rules,
        decisions: Decisions,
        expected_head: PlaceLike | None,
        message: str | None,
        *,
        dry_run: bool,
    ) -> asks.ApplyCommitRequest:
        """What is sent to revert a commit, or to pick it."""
        return asks.ApplyCommitRequest(
            commit=name_place(commit),
            branch=self._choose(branch),
            parent=parent,
            dry_run=dry_run,
            resolve=_as_rules(resolve),
            decisions=_as_decisions(decisions),
            expected_head=self._find_head(expected_head, branch),
            message=message,
        )

    def _apply(self, request: ClientRequest, key: str | None) -> ApplyResult:
        assert isinstance(request.body, asks.ApplyCommitRequest | asks.RestoreRequest)
        branch = self._choose(request.body.branch)
        answer = send_write(self._connection, request, make_key(key), branch)
        done = self._connection.decode(answer, bodies.ApplyCommitOutput)
        return read_apply(done, is_replayed=is_replayed(answer))

    # --- what was -------------------------------------------------------------------------------

    def diff(
        self,
        before: str,
        after: str | None = None,
        *,
        images: bool = False,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        branch: str | None = None,
    ) -> ServedDiff:
        """The differences between two places, or between a place and the current state of a branch.

        Both places are looked up at once; what changed is asked for when it is read.
        """
        from omnigraph.client.served_diff import ServedDiff  # noqa: PLC0415 - loads the engine
        from omnigraph.history.entity_changes import ChangeFilter  # noqa: PLC0415

        wanted = ChangeFilter(frozenset(kinds), frozenset(types), frozenset(ops))
        sides = self.at(before, branch=branch).info(), self.at(after, branch=branch).info()
        return ServedDiff(self._connection, sides, images=images, wanted=wanted)

    # --- names and readers ----------------------------------------------------------------------

    def tag(
        self,
        name: str,
        at: PlaceLike | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
    ) -> Tag:
        """Give a commit a permanent name: the head of a branch, or the commit at a place."""
        refuse_actor(actor)
        named = name_optional_place(at)
        body = asks.TagCreateRequest(name=name, at=named, branch=self._choose(branch))
        answer = send_keyless(self._connection, ClientRequest("createTag", body=body))
        return read_tag(self._connection.decode(answer, bodies.TagOutput))

    def set_consumer(
        self,
        name: str,
        position: str | Commit | None = None,
        *,
        lasts: datetime.timedelta = datetime.timedelta(days=7),
        branch: str | None = None,
    ) -> Consumer:
        """Record how far a consumer of the feed has read, so that cleanup keeps the rest for it."""
        read_to = position.commit_id if isinstance(position, Commit) else position
        body = asks.ConsumerSetRequest(
            position=read_to, lasts_seconds=lasts.total_seconds(), branch=self._choose(branch)
        )
        request = ClientRequest("setConsumer", path={"consumer": name}, body=body)
        answer = send_keyless(self._connection, request)
        return read_consumer(self._connection.decode(answer, bodies.ConsumerOutput))

    def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = None, branch: str | None = None
    ) -> EntityHistory:
        """Every value an entity had on a branch, newest first, with commit, actor and time."""
        named = () if kind is None else (("entity", kind),)
        request = ClientRequest(
            "getEntityHistory",
            parameters=(
                ("type", type_name),
                ("id", entity_id),
                *named,
                ("branch", self._choose(branch)),
            ),
        )
        found = self._connection.ask_for(request, bodies.EntityHistoryOutput)
        return read_entity_history(found)


def _as_decisions(given: Decisions) -> list[dict[str, object]] | None:
    from omnigraph.graph.merging import load_decisions  # noqa: PLC0415 - loads the engine

    return [dict(one) for one in load_decisions(given)] or None


def _as_rules(resolve: Rules) -> str | list[str] | dict[str, str] | None:
    if resolve is None or isinstance(resolve, str):
        return resolve
    try:
        if isinstance(resolve, Mapping):
            return convert_into(dict(resolve), dict[str, str]) or None
        return convert_into(list(resolve), list[str]) or None
    except msgspec.ValidationError:
        raise BadRequest("resolve is a rule, a list of rules, or rules by type") from None
