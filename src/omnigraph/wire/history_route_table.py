"""Routes about what was: commits, undoing, tags, differences and the change feed."""

from __future__ import annotations

from omnigraph.wire import request_bodies as asks
from omnigraph.wire import response_bodies as gives
from omnigraph.wire.http_names import NDJSON
from omnigraph.wire.route_parameters import BRANCH, CHANGES, ENTITY, KINDS, PAGES, ROWS, YES_NO
from omnigraph.wire.route_spec import (
    GRAPH,
    QueryParameter,
    RouteSpec,
    make_delete,
    make_get,
    make_keyed_post,
    make_post,
)

HISTORY_ROUTES = (
    make_get(
        "listCommits",
        "commits",
        "The commits of a branch, newest first.",
        gives.CommitListOutput,
        parameters=(
            BRANCH,
            QueryParameter("before", "Only commits older than this one, or up to this time."),
            QueryParameter("after", "Only commits newer than this one, or after this time."),
            QueryParameter("type", "Only commits that changed rows of these types.", repeats=True),
            QueryParameter("commit_kind", "Only commits made by this, as `load`.", repeats=True),
            *PAGES,
        ),
    ),
    make_get("getCommit", "commits/{commit_id}", "One commit.", gives.CommitOutput),
    make_get(
        "getCommitChanges",
        "commits/{commit_id}/changes",
        "What a commit changed, a page at a time.",
        gives.CommitChangesOutput,
        parameters=(*PAGES, *CHANGES),
        statuses=(410,),
    ),
    make_keyed_post(
        "revert",
        "revert",
        "Undo what one commit did, as a new commit.",
        asks.ApplyCommitRequest,
        gives.ApplyCommitOutput,
        statuses=(412,),
    ),
    make_keyed_post(
        "cherryPick",
        "cherry-pick",
        "Do what one commit of any branch did on a branch as well, as a new commit.",
        asks.ApplyCommitRequest,
        gives.ApplyCommitOutput,
        statuses=(412,),
    ),
    make_keyed_post(
        "restore",
        "restore",
        "Set a branch to what it was at a place, as a new commit.",
        asks.RestoreRequest,
        gives.ApplyCommitOutput,
        statuses=(412,),
    ),
    make_get("listTags", "tags", "The tags, by name.", gives.TagListOutput, parameters=PAGES),
    make_post(
        "createTag",
        "tags",
        "Give a commit a permanent name.",
        asks.TagCreateRequest,
        gives.TagOutput,
    ),
    make_delete("deleteTag", "tags/{tag}", "Delete a tag.", gives.TagOutput),
    make_get(
        "diff",
        "diff",
        "How two places differ: counts by type, every change as a line, or those of one type as "
        "Arrow.",
        gives.DiffOutput,
        parameters=(
            QueryParameter("before", "The place to start from.", is_required=True),
            QueryParameter("after", "The other place; the branch as it is by default."),
            BRANCH,
            QueryParameter(
                "images", "Whether lines have whole entities before and after.", choices=YES_NO
            ),
            *CHANGES,
        ),
        answer_media=ROWS,
    ),
    make_get(
        "getEntityHistory",
        "history",
        "Every value an entity had on a branch, newest first.",
        gives.EntityHistoryOutput,
        parameters=(
            *ENTITY,
            QueryParameter(
                "entity",
                "What it is, where a node type and an edge type share the name.",
                choices=KINDS,
            ),
            BRANCH,
        ),
    ),
)
FEED_ROUTES = (
    make_get(
        "pollChanges",
        "changes",
        "A page of the change feed of a branch.",
        gives.ChangeFeedOutput,
        parameters=(
            BRANCH,
            QueryParameter("cursor", "Go on after a page that ended with this cursor."),
            QueryParameter(
                "start", "Where to begin: `now`, `beginning`, or `after:` and a commit id."
            ),
            *reversed(PAGES),
            QueryParameter("max_commits", "At most so many commits.", is_number=True),
            *CHANGES,
        ),
        statuses=(410,),
    ),
    make_post(
        "captureChangeBaseline",
        "changes/baseline",
        "Every record of a branch, and then the cursor to follow its feed from.",
        asks.ChangeBaselineRequest,
        None,
        answer_media=(NDJSON,),
        is_body_optional=True,
    ),
    make_get(
        "listConsumers",
        "consumers",
        "The consumers of the change feeds, by name.",
        gives.ConsumerListOutput,
        parameters=PAGES,
    ),
    RouteSpec(
        "setConsumer",
        "PUT",
        f"{GRAPH}/consumers/{{consumer}}",
        "Record how far a consumer has read, so that cleanup keeps the rest for it.",
        asks.ConsumerSetRequest,
        gives.ConsumerOutput,
        is_body_optional=True,
    ),
    make_delete(
        "deleteConsumer", "consumers/{consumer}", "Delete a consumer.", gives.ConsumerOutput
    ),
    make_get(
        "getWrite",
        "writes/{key}",
        "What became of a write that was sent with an idempotency key.",
        gives.WriteOutput,
        parameters=(BRANCH,),
    ),
)
