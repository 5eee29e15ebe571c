"""The verbs that undo: new commits of a branch that are made of its history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.graph.open_graph import BranchVerbs
from omnigraph.graph.place_names import PlaceLike, name_place
from omnigraph.policy.actions import Action

if TYPE_CHECKING:
    from omnigraph.graph.branch_snapshots import BranchSnapshots
    from omnigraph.graph.undoing import ApplyRequest, ApplyResult
    from omnigraph.history.conflict_rules import Given
    from omnigraph.writer.driver import Writer


class UndoVerbs(BranchVerbs):
    """Reverting, picking and restoring commits."""

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
        """Undo what one commit did, as a new commit; what came after it stays.

        What the commit changed and a later one changed again is a conflict. It is decided as in a
        merge: `theirs` and `source` are what was there before the commit, `ours` and `target` what
        the branch has now.

        Args:
            commit: The commit, the beginning of its id, a tag or anything else that names one.
            branch: The branch to change.
            parent: Of a merge, against which parent its changes are told: 1 is what it was merged
                into, 2 what was merged.
            dry_run: Say what would be done and what conflicts; nothing is written.
            resolve: Rules that decide conflicts; see `merge`.
            decisions: What was decided about single conflicts; see `merge`.
            expected_head: Only if the branch is at this commit.
            actor: Who the new commit is recorded for.
            message: Kept with the new commit.
            idempotency_key: Names the write: it is made once, however often it is asked for.

        Raises:
            MergeConflicts: the commit's changes were changed again and nothing decides.

        >>> _ = graph.mutate('query q() { insert Person { name: "Cy" } }')
        >>> _ = graph.mutate('query q() { insert Person { name: "Di" } }')
        >>> str(graph.revert(graph.commits()[1].commit_id).outcome)
        'reverted'
        >>> sorted(graph.nodes("Person").to_arrow()["name"].to_pylist())
        ['Ada', 'Ben', 'Di']
        """
        from omnigraph.graph import undoing

        request = self._ask_for_commit(
            commit,
            branch,
            parent,
            resolve,
            decisions,
            actor,
            expected_head,
            message,
            dry_run=dry_run,
        )
        return self._undo(undoing.revert, "revert", request, idempotency_key)

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
        """Do what one commit of any branch did on this branch as well, as a new commit.

        The parameters are those of `revert`; `theirs` and `source` are what the commit made of an
        entity.

        Raises:
            MergeConflicts: the branch contradicts the commit and nothing decides.

        >>> _ = graph.create_branch("review")
        >>> review = graph.branch("review")
        >>> _ = review.mutate('query q() { insert Person { name: "Cy" } }')
        >>> _ = review.mutate('query q() { insert Person { name: "Di" } }')
        >>> str(graph.cherry_pick(review.commits()[0].commit_id).outcome)
        'cherry_picked'
        >>> sorted(graph.nodes("Person").to_arrow()["name"].to_pylist())
        ['Ada', 'Ben', 'Di']
        """
        from omnigraph.graph import undoing

        request = self._ask_for_commit(
            commit,
            branch,
            parent,
            resolve,
            decisions,
            actor,
            expected_head,
            message,
            dry_run=dry_run,
        )
        return self._undo(undoing.cherry_pick, "cherry_pick", request, idempotency_key)

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
        """Set a branch to what it was at a place, as a new commit; no commit is lost.

        Args:
            place: A commit, the beginning of its id, a tag, a time, or any other place; see `at`.
            branch: The branch to change; versions and times are those of this branch.
            dry_run: Say what would be done; nothing is written.
            expected_head: Only if the branch is at this commit.
            actor: Who the new commit is recorded for.
            message: Kept with the new commit.
            idempotency_key: Names the write: it is made once, however often it is asked for.

        >>> _ = graph.tag("before")
        >>> _ = graph.mutate('query q() { delete Person where name = "Ben" }')
        >>> str(graph.restore("before").outcome), len(graph.nodes("Person"))
        ('restored', 2)
        """
        from omnigraph.graph import undoing

        request = undoing.ApplyRequest(
            name_place(place),
            self._choose(branch),
            actor=actor or self.actor,
            expected_head=self._find_commit_id(expected_head, self._choose(branch)),
            dry_run=dry_run,
            message=message,
        )
        return self._undo(undoing.restore, "restore", request, idempotency_key)

    def _ask_for_commit(
        self,
        commit: PlaceLike,
        branch: str | None,
        parent: int | None,
        resolve: Given,
        decisions: str | Path | Sequence[Mapping[str, object]],
        actor: str | None,
        expected_head: PlaceLike | None,
        message: str | None,
        *,
        dry_run: bool,
    ) -> ApplyRequest:
        """What is asked for when a commit is reverted or picked."""
        from omnigraph.graph import merging, undoing

        return undoing.ApplyRequest(
            name_place(commit),
            self._choose(branch),
            parent,
            resolve,
            merging.load_decisions(decisions),
            actor or self.actor,
            self._find_commit_id(expected_head, self._choose(branch)),
            dry_run,
            message,
        )

    def _undo(
        self,
        verb: Callable[[BranchSnapshots, Writer, ApplyRequest], ApplyResult],
        operation: str,
        asked: ApplyRequest,
        idempotency_key: str | None,
    ) -> ApplyResult:
        """Go on if the actor may change the branch and read that of the commit."""
        from omnigraph.graph import undoing
        from omnigraph.graph.keyed_writes import WriteKey
        from omnigraph.graph.place_lookup import find_commit, find_place

        branch, actor = asked.branch, asked.actor
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        key = WriteKey.of(idempotency_key, operation, actor, *_list_asked(asked))
        request = replace(asked, key=key)
        done = undoing.find_applied(self._open.views, request)
        if done is not None:  # before its commit is looked for: the place may mean another now
            return done
        if self.policy is not None:
            if operation == "restore":  # which takes any place, and says so where there is none
                find_place(self._open.views, request.commit, branch)
            found = find_commit(self._open.views, request.commit, branch)
            self._guard.allow(Action.READ, branch=found.branch, actor=actor)
        if not request.dry_run:
            self._open.require_writable()
        with self._hiding_conflicts(branch, actor):
            result = verb(self._open.views, self._open.writer, request)
        return replace(result, conflicts=self._hide_values(result.conflicts, branch, actor))


def _list_asked(request: ApplyRequest) -> tuple[object, ...]:
    """All that makes two requests different, beside who asks."""
    decided = [dict(one) for one in request.decisions]
    place = (request.commit.strip(), request.branch.strip(), request.parent)
    return (*place, request.resolve, decided, request.expected_head, request.message)
