"""Create, rename and delete branches, and tag commits; under an idempotency key, once.

A branch is created, renamed or deleted without a commit. A request with an idempotency key is
recorded beside the branches, with its plan, before its first effect.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import BranchNotFound
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.open_graph import GraphHandle
from omnigraph.graph.revisions import HEAD, RevisionLike, find_commit, format_revision
from omnigraph.policy.decision import Action
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch, normalize_deletable_branch
from omnigraph.storage.refs import BranchRef, create_tag, find_ref, list_refs
from omnigraph.wire.commit_results import Tag
from omnigraph.wire.write_results import CreatedBranch, DeletedBranch
from omnigraph.writer.change import CatalogSnapshot, WriteOptions

_ID = "incarnation"
_GIVEN_UP = "given_up"
"""The ids of earlier attempts, in order."""


class BranchVerbs(GraphHandle):
    """The verbs that create branches and tags."""

    def create_branch(
        self,
        name: str,
        *,
        source: str | None = None,
        commit: RevisionLike | None = None,
        actor: str | None = None,
        idempotency_key: str | None = None,
    ) -> CreatedBranch:
        """Create a branch from another one, or from a commit. Copies nothing.

        With an `idempotency_key` it is created once, and a repetition returns the first result.

        >>> review = graph.create_branch("review")
        >>> review.name, review.parent, review.actor_id
        ('review', 'main', 'maria')
        """
        self._open.require_writable()
        source = self._choose(source)
        self._guard.allow(Action.BRANCH_CREATE, branch=source, target_branch=name, actor=actor)
        start = self._find_commit_id(commit, source)
        options = self._make_write_options(name, actor, idempotency_key=idempotency_key)
        return create_branch(self._open.views, source, start, options)

    def tag(
        self,
        name: str,
        at: RevisionLike | None = None,
        *,
        branch: str | None = None,
        actor: str | None = None,
    ) -> Tag:
        """Create a permanent name for the head of a branch, or for another commit.

        Cleanup keeps a tagged commit readable. A tag does not move.

        >>> graph.tag("v1").commit_id == graph.commits()[0].commit_id
        True
        >>> len(graph.at("v1").nodes("Person"))
        2
        """
        self._open.require_writable()
        branch = self._choose(branch)
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        wanted = HEAD if at is None else format_revision(at)
        commit = find_commit(self._open.views, wanted, branch)
        if at is not None:
            self._guard.allow(Action.READ, branch=commit.branch, actor=actor)
        return create_tag(self._open.views.root, name, commit, actor or self.actor).shown


def create_branch(
    views: BranchSnapshots, source: str, commit: str | None, options: WriteOptions
) -> CreatedBranch:
    """Create a branch from the head of another one, or from a commit."""
    from omnigraph.graph.idempotency import BranchRequest, WriteKey, do_once
    from omnigraph.storage import graph_branches

    root, name, actor = views.root, options.branch, options.actor_id
    key = WriteKey.of(options, "create_branch", normalize_branch(source), commit)

    def create(planned: Mapping[str, str]) -> CreatedBranch:
        given, given_up = planned.get(_ID), planned.get(_GIVEN_UP, "").split()

        def create_from(view: CatalogSnapshot) -> BranchRef:
            return graph_branches.create(view.snapshot, name, actor, given, given_up)

        if commit is not None:
            return _describe(create_from(views.at_commit(commit, source)), options)
        return _describe(views.with_newest(source, create_from), options)

    def plan_again(planned: Mapping[str, str]) -> dict[str, str]:
        return {_ID: root.ids.next(), _GIVEN_UP: " ".join(_list_ids(planned))}

    def find_created(planned: Mapping[str, str]) -> CreatedBranch | None:
        """Return the branch of this name; one of an earlier attempt may be renamed by now."""
        if _GIVEN_UP not in planned:
            found = _find_branch(root, name, planned)
        else:
            ids = _list_ids(planned)
            found = next((ref for ref in list_refs(root.store) if ref.incarnation in ids), None)
        return None if found is None else _describe(found, options)

    request = BranchRequest(
        CreatedBranch, lambda: {_ID: root.ids.next()}, create, find_created, plan_again
    )
    return do_once(root, key, request)


def rename_branch(root: GraphRoot, new_name: str, options: WriteOptions) -> CreatedBranch:
    """Rename a branch."""
    from omnigraph.graph.idempotency import BranchRequest, WriteKey, do_once
    from omnigraph.storage import graph_branches

    name = options.branch
    key = WriteKey.of(options, "rename_branch", normalize_branch(new_name))

    def rename(planned: Mapping[str, str]) -> CreatedBranch:
        ref = graph_branches.rename(root, name, new_name, planned.get(_ID))
        return _describe(ref, options, renamed_from=name.strip())

    def find_renamed(planned: Mapping[str, str]) -> CreatedBranch | None:
        is_left = _find_branch(root, name, planned) is not None
        ref = None if is_left else _find_branch(root, new_name, planned)
        return None if ref is None else _describe(ref, options, renamed_from=name.strip())

    request = BranchRequest(CreatedBranch, lambda: _identify(root, name), rename, find_renamed)
    return do_once(root, key, request)


def delete_branch(root: GraphRoot, options: WriteOptions) -> DeletedBranch:
    """Delete a branch; with a key, no other branch created under the name since."""
    from omnigraph.graph.idempotency import BranchRequest, WriteKey, do_once
    from omnigraph.storage import graph_branches

    name = options.branch
    gone = DeletedBranch(name=name.strip(), actor_id=options.actor_id)
    key = WriteKey.of(options, "delete_branch")
    normalize_deletable_branch(name)

    def delete(planned: Mapping[str, str]) -> DeletedBranch:
        graph_branches.delete(root, name, planned.get(_ID))
        return gone

    def find_deleted(planned: Mapping[str, str]) -> DeletedBranch | None:
        return gone if _find_branch(root, name, planned) is None else None

    request = BranchRequest(DeletedBranch, lambda: _identify(root, name), delete, find_deleted)
    return do_once(root, key, request)


def _describe(
    ref: BranchRef, options: WriteOptions, renamed_from: str | None = None
) -> CreatedBranch:
    return CreatedBranch(
        name=ref.name,
        parent=ref.parent,
        actor_id=options.actor_id,
        renamed_from=renamed_from,
        incarnation=ref.incarnation,
        fork_version=ref.fork_version,
        fork_head=ref.fork_head,
        created_at=ref.created_at,
    )


def _find_branch(root: GraphRoot, name: str, planned: Mapping[str, str]) -> BranchRef | None:
    """Return the branch of this name, if it has the planned id."""
    ref = find_ref(root.store, normalize_branch(name))
    return ref if ref is not None and ref.incarnation == planned[_ID] else None


def _list_ids(planned: Mapping[str, str]) -> list[str]:
    """Return the ids under which a branch may have been created."""
    return [*planned.get(_GIVEN_UP, "").split(), planned[_ID]]


def _identify(root: GraphRoot, name: str) -> dict[str, str]:
    ref = find_ref(root.store, normalize_branch(name))
    if ref is None:
        raise BranchNotFound(name.strip())
    return {_ID: ref.incarnation or ""}
