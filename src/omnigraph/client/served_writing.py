"""Verbs of a served graph that write to a branch, and verbs of branches and history."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from omnigraph.client.http_connection import (
    ClientRequest,
    send_once,
)
from omnigraph.client.served_object import (
    refuse_actor,
    require_default,
    with_file_name,
    with_source_name,
)
from omnigraph.client.served_reading import ServedReading
from omnigraph.client.served_results import ServedDiff, ServedQueryResult, StreamedRows
from omnigraph.client.served_view import refuse_engine
from omnigraph.errors import BadRequest, NotServed
from omnigraph.graph.engines import (
    GranularityName,
    LoadEngineName,
    MergeEngineName,
    ModeName,
)
from omnigraph.graph.revisions import RevisionLike, format_optional_revision, format_revision
from omnigraph.history.entity_changes import ChangeFilter
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.operations import operation_table as routes
from omnigraph.plan.compile import compile_catalog
from omnigraph.struct_decoding import convert_into
from omnigraph.wire import request_bodies as asks
from omnigraph.wire.change_results import EntityHistory
from omnigraph.wire.commit_results import Commit, Consumer, Tag
from omnigraph.wire.http_protocol import ARROW_STREAM, COMMIT_ID, IF_GRAPH_COMMIT, JSON, QUERY_NAME
from omnigraph.wire.merge_results import ApplyResult, MergeResult
from omnigraph.wire.write_results import CreatedBranch, LoadResult, MutationResult

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.graph.conversion.load_inputs import Input
    from omnigraph.output_files import OutputFile
    from omnigraph.wire.change_results import EntityHistory
    from omnigraph.wire.merge_results import ApplyResult, MergeResult


class ServedWriting(ServedReading):
    """Verbs of a served graph that write to a branch."""

    def mutate(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a mutation as one commit, executed once even if connections get lost."""
        refuse_actor(actor)
        where, text = self._choose(branch), as_source_text(query, "<query>")
        body = asks.MutateRequest(
            query=text.text,
            name=name,
            params=None if params is None else dict(params),
            branch=where,
            message=message,
        )
        head = self._find_head(expected_head, branch)
        request = ClientRequest(routes.MUTATE, body=body, headers=_make_condition(head))
        with with_source_name(text):
            return self._connection.ask(request, key=idempotency_key, branch=where)

    def load(
        self,
        records: Input,
        mode: ModeName,
        *,
        branch: str | None = None,
        base: str | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: LoadEngineName | None = None,
        format: str | None = None,
        type: str | None = None,
        columns: Mapping[str, str] | None = None,
        select: Sequence[str] = (),
        match: Sequence[str] = (),
        partial: bool = False,
        on_error: str = "fail",
        rejects: str | Path | OutputFile | None = None,
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        delimiter: str | None = None,
    ) -> LoadResult:
        """Load records as one commit or not at all: a file of JSON lines, its bytes, or rows."""
        from omnigraph.graph.conversion.load_inputs import convert_to_lines  # noqa: PLC0415 - loads the engine

        refuse_actor(actor)
        refuse_engine("local" if engine in (None, "auto") else engine, session, spark_conf)
        given = {
            "format": (None if format == "jsonl" else format, None),
            "on_error": (on_error, "fail"),
            "rejects": (rejects, None),
            "delimiter": (delimiter, None),
        }
        require_default(given, "load")
        where = self._choose(branch)
        lines = convert_to_lines(
            records, self._read_catalog, type=type, columns=columns, select=select
        )
        if lines is None:
            raise NotServed(
                "loading anything but one file of JSON lines, its bytes or records",
                "write it as JSON lines first, or load it where the graph is stored",
            )
        start = () if base is None else (("from", base),)
        expected = self._find_head(expected_head, base or branch)
        head = () if expected is None else (("expected_head", expected),)
        keep = (("partial", "true"),) if partial else ()
        keys = [("match", name) for name in match]
        note = () if message is None else (("message", message),)
        parameters = (
            ("branch", where),
            ("mode", str(mode)),
            *start,
            *head,
            *keep,
            *keys,
            *note,
        )
        request = ClientRequest(routes.LOAD_NDJSON, parameters=parameters, data=lines.data)
        with with_file_name(lines.file):
            return self._connection.ask(request, key=idempotency_key, branch=where)

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: RevisionLike | None = None,
        expect_mutation: bool | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ServedQueryResult | MutationResult:
        """Run a stored query, a read or a mutation."""
        refuse_actor(actor)
        read_at = format_optional_revision(snapshot)
        where = None if read_at is not None and branch is None else self._choose(branch)
        body = asks.InvokeQueryRequest(
            params=None if params is None else dict(params),
            branch=where,
            snapshot=read_at,
            expect_mutation=expect_mutation,
            message=message,
        )
        head = self._find_head(expected_head, branch)
        request = ClientRequest(
            routes.INVOKE_QUERY,
            path={"name": name},
            body=body,
            headers=_make_condition(head),
            accept=f"{ARROW_STREAM}, {JSON};q=0.5",
        )
        return send_once(
            self._connection,
            lambda keyed: self._read_invoked(keyed, where, read_at),
            request,
            idempotency_key,
            where or self._choose(None),
        )

    def _read_invoked(
        self, request: ClientRequest[Any], branch: str | None, snapshot: str | None
    ) -> ServedQueryResult | MutationResult:
        """Decode the result of a stored query: rows of a read, or the result of a mutation."""
        response = self._connection.start(request)
        headers = response.headers
        if headers.get("Content-Type", "").startswith(ARROW_STREAM):
            rows = StreamedRows(response, self._connection.address.base)
            target = {"branch": branch, "snapshot": snapshot}
            return ServedQueryResult(
                headers.get(QUERY_NAME, ""), rows, target, headers.get(COMMIT_ID)
            )
        answer = self._connection.finish(response)
        return self._connection.decode(answer, MutationResult)

    def _read_catalog(self) -> Catalog:
        """Compile the accepted schema of the server."""
        return compile_catalog(SourceText(self.schema, "<schema>"))


def _make_condition(head: str | None) -> dict[str, str]:
    return {} if head is None else {IF_GRAPH_COMMIT: head}


Rules = str | Mapping[str, str] | Sequence[str] | None
Decisions = str | Path | Sequence[Mapping[str, object]]


class ServedHistory(ServedWriting):
    """Verbs of a served graph about branches and history."""

    def create_branch(
        self,
        name: str,
        *,
        source: str | None = None,
        commit: RevisionLike | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> CreatedBranch:
        """Create a branch from another one, or from a commit. Copies nothing."""
        refuse_actor(actor)
        where = self._choose(source)
        start = self._find_head(commit, source)
        body = asks.BranchCreateRequest(name=name, source=where, commit=start)
        request = ClientRequest(routes.CREATE_BRANCH, body=body)
        return self._connection.ask(request, key=idempotency_key, branch=where)

    def merge(
        self,
        source: str,
        into: str | None = None,
        *,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        granularity: GranularityName = "property",
        delete_branch: bool = False,
        expected_head: RevisionLike | None = None,
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
            into=target,
            dry_run=dry_run,
            resolve=_as_rules(resolve),
            decisions=_as_decisions(decisions),
            granularity=granularity,
            delete_branch=delete_branch,
            expected_head=self._find_head(expected_head, into),
            message=message,
        )
        request = ClientRequest(routes.MERGE_BRANCHES, body=body)
        return self._connection.ask(request, key=idempotency_key, branch=target)

    # --- undoing --------------------------------------------------------------------------------

    def revert(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = None,
        parent: int | None = None,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        granularity: GranularityName = "property",
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Undo the changes of one commit, as a new commit; later changes are kept."""
        refuse_actor(actor)
        body = self._make_commit_request(
            commit,
            branch,
            parent,
            resolve,
            decisions,
            granularity,
            expected_head,
            message,
            dry_run=dry_run,
        )
        return self._apply(ClientRequest(routes.REVERT, body=body), idempotency_key)

    def cherry_pick(
        self,
        commit: RevisionLike,
        *,
        branch: str | None = None,
        parent: int | None = None,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        granularity: GranularityName = "property",
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Apply the changes of one commit of any branch to this branch, as a new commit."""
        refuse_actor(actor)
        body = self._make_commit_request(
            commit,
            branch,
            parent,
            resolve,
            decisions,
            granularity,
            expected_head,
            message,
            dry_run=dry_run,
        )
        return self._apply(ClientRequest(routes.CHERRY_PICK, body=body), idempotency_key)

    def restore(
        self,
        revision: RevisionLike,
        *,
        branch: str | None = None,
        dry_run: bool = False,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ApplyResult:
        """Set a branch to its state at a revision, as a new commit; no commit is lost."""
        refuse_actor(actor)
        body = asks.RestoreRequest(
            revision=format_revision(revision),
            branch=self._choose(branch),
            dry_run=dry_run,
            expected_head=self._find_head(expected_head, branch),
            message=message,
        )
        return self._apply(ClientRequest(routes.RESTORE, body=body), idempotency_key)

    def _make_commit_request(
        self,
        commit: RevisionLike,
        branch: str | None,
        parent: int | None,
        resolve: Rules,
        decisions: Decisions,
        granularity: GranularityName,
        expected_head: RevisionLike | None,
        message: str | None,
        *,
        dry_run: bool,
    ) -> asks.ApplyCommitRequest:
        """Build the request to revert or cherry-pick a commit."""
        return asks.ApplyCommitRequest(
            commit=format_revision(commit),
            branch=self._choose(branch),
            parent=parent,
            dry_run=dry_run,
            resolve=_as_rules(resolve),
            decisions=_as_decisions(decisions),
            granularity=granularity,
            expected_head=self._find_head(expected_head, branch),
            message=message,
        )

    def _apply(self, request: ClientRequest[ApplyResult], key: str | None) -> ApplyResult:
        assert isinstance(request.body, asks.ApplyCommitRequest | asks.RestoreRequest)
        branch = self._choose(request.body.branch)
        return self._connection.ask(request, key=key, branch=branch)

    # --- history --------------------------------------------------------------------------------

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
        """Compare two revisions, or a revision and the current state of a branch.

        Both revisions are resolved at once; the changes are fetched when they are read.
        """
        wanted = ChangeFilter(frozenset(kinds), frozenset(types), frozenset(ops))
        sides = self.at(before, branch=branch).info(), self.at(after, branch=branch).info()
        return ServedDiff(self._connection, sides, images=images, wanted=wanted)

    # --- names and readers ----------------------------------------------------------------------

    def tag(
        self,
        name: str,
        at: RevisionLike | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
    ) -> Tag:
        """Give a commit a permanent name: the head of a branch, or the commit at a revision."""
        refuse_actor(actor)
        named = format_optional_revision(at)
        body = asks.TagCreateRequest(name=name, at=named, branch=self._choose(branch))
        return self._connection.ask(ClientRequest(routes.CREATE_TAG, body=body))

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
        request = ClientRequest(routes.SET_CONSUMER, path={"consumer": name}, body=body)
        return self._connection.ask(request)

    def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = None, branch: str | None = None
    ) -> EntityHistory:
        """Return every version of an entity on a branch, newest first."""
        named = () if kind is None else (("entity", kind),)
        request = ClientRequest(
            routes.GET_ENTITY_HISTORY,
            parameters=(
                ("type", type_name),
                ("id", entity_id),
                *named,
                ("branch", self._choose(branch)),
            ),
        )
        return self._connection.ask(request)


def _as_decisions(given: Decisions) -> list[dict[str, object]] | None:
    from omnigraph.graph.merges import load_decisions  # noqa: PLC0415 - loads the engine

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
