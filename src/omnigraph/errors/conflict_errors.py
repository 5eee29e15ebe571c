"""Errors about a state that is not the expected one: read again, then redo it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.errors.omni_error import (
    ConflictError,
    JsonValue,
    MergeConflict,
    render_both_positions,
    render_position,
)


class ExpectedVersionMismatch(ConflictError):
    code = "expected_version_mismatch"

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stale view of {table_key}: expected version {expected}, found {actual}; "
            "refresh and retry"
        )
        self.table_key, self.expected, self.actual = table_key, expected, actual

    def details(self) -> Mapping[str, JsonValue]:
        entity_kind, _, type_name = self.table_key.partition(":")
        return {
            "manifest_conflict": {
                "table_key": self.table_key,
                "expected": self.expected,
                "actual": self.actual,
            },
            "published_dataset_version_conflict": {
                "entity_kind": entity_kind,
                "type_name": type_name,
                "expected_published_dataset_version": self.expected,
                "actual_published_dataset_version": self.actual,
            },
        }


class ReadSetChanged(ConflictError):
    """The state an operation was prepared on has changed; nothing was written."""

    code = "read_set_changed"

    def __init__(
        self, member: str, expected: str | None, actual: str | None, position: str | None = None
    ) -> None:
        where = f"; {position} is about what changed" if position else ""
        super().__init__(
            f"{member} changed from {expected or 'nothing'} to {actual or 'nothing'} "
            f"while the operation was being prepared; read it again and retry{where}"
        )
        self.member, self.expected, self.actual = member, expected, actual
        self.position = position
        """Of a schema: the file, line and column of the declaration that changed."""

    def details(self) -> Mapping[str, JsonValue]:
        change = {"member": self.member, "expected": self.expected, "actual": self.actual}
        if self.position is not None:
            change["position"] = self.position
        return {"read_set_conflict": change}


class RowLevelCasContention(ConflictError):
    code = "cas_contention"

    def __init__(self, attempts: int) -> None:
        super().__init__(f"another writer published first, {attempts} times in a row; retry")
        self.attempts = attempts


class KeyConflict(ConflictError):
    code = "key_conflict"

    def __init__(
        self,
        table_key: str,
        id: str | None,
        line: int | None = None,
        file: str | None = None,
        first_line: int | None = None,
        first_file: str | None = None,
    ) -> None:
        where = render_position(file, line)
        entity = f" '{id}'" if id is not None else ""
        problem = "already has this id"
        if line is not None and first_line is not None:
            problem = (
                f"is given twice, in {render_both_positions(first_file, first_line, file, line)}"
            )
        super().__init__(f"{where}{table_key}{entity} {problem}")
        self.table_key, self.id, self.line, self.file = table_key, id, line, file
        self.first_line, self.first_file = first_line, first_file
        """The first occurrence of an id that the input has twice."""

    def details(self) -> Mapping[str, JsonValue]:
        entity_kind, _, type_name = self.table_key.partition(":")
        return {
            "key_conflict": {
                "entity_kind": entity_kind,
                "type_name": type_name,
                "entity_id": self.id,
                **({} if self.line is None else {"line": self.line}),
                **({} if self.file is None else {"file": self.file}),
                **({} if self.first_line is None else {"first_line": self.first_line}),
                **({} if self.first_file is None else {"first_file": self.first_file}),
            }
        }


class PreconditionFailed(ConflictError):
    code = "precondition_failed"
    http_status = 412
    exit_code = 4

    def __init__(self, branch: str, expected: str, actual: str | None) -> None:
        super().__init__(
            f"branch '{branch}' is at commit {actual or 'none'}, not at the expected {expected}; "
            "read it again and retry"
        )
        self.branch, self.expected, self.actual = branch, expected, actual

    def details(self) -> Mapping[str, JsonValue]:
        facts = {"branch": self.branch, "expected": self.expected, "actual": self.actual}
        return {"precondition_failure": facts}


class MergeConflicts(ConflictError):
    """Two states conflict, or break rules when combined; nothing was changed.

    Raised by merges, reverts and cherry-picks.
    """

    code = "merge_conflicts"

    def __init__(self, doing: str, conflicts: Sequence[MergeConflict]) -> None:
        assert conflicts, "a merge without conflicts is no error"
        self.doing, self.conflicts = doing, tuple(conflicts)
        first = "; ".join(conflict.message for conflict in conflicts[:3])
        rest = f"; +{len(conflicts) - 3} more" if len(conflicts) > 3 else ""
        count = "1 conflict" if len(conflicts) == 1 else f"{len(conflicts)} conflicts"
        super().__init__(
            f"{doing} has {count}: {first}{rest}. Nothing was changed; "
            "a dry run lists them; resolve rules and decisions resolve them"
        )

    def details(self) -> Mapping[str, JsonValue]:
        conflicts = [conflict.wire() for conflict in self.conflicts]
        return {"doing": self.doing, "merge_conflicts": conflicts}


class MergeBaseUnavailable(ConflictError):
    """A state that a comparison needs was removed by cleanup: a merge base, or a commit to undo."""

    code = "merge_base_unavailable"

    def __init__(self, commit_id: str) -> None:
        super().__init__(
            f"the state at commit {commit_id}, which the change starts from, was removed by "
            "cleanup; load exported records instead, and retain more commits or tag those you need"
        )
        self.commit_id = commit_id


class IdempotencyKeyReused(ConflictError):
    """An idempotency key that was used for another request."""

    code = "idempotency_key_reused"

    def __init__(self, key: str, commit_id: str | None = None) -> None:
        made = "" if commit_id is None else f", which made commit {commit_id}"
        super().__init__(
            f"the idempotency key '{key}' belongs to another request{made}; use a new key for a "
            "new request"
        )
        self.key, self.commit_id = key, commit_id

    def details(self) -> Mapping[str, JsonValue]:
        return {"idempotency_conflict": {"key": self.key, "graph_commit_id": self.commit_id}}


class BlobChanged(ConflictError):
    """A blob that is not the one a conditional request expects."""

    code = "blob_changed"
    http_status = 412

    def __init__(self, etag: str | None) -> None:
        now = f"its ETag is {etag}" if etag else "it has no value"
        super().__init__(f"the blob is not the expected one: {now}; read it again")
        self.etag = etag


class RetryableCommitConflict(ConflictError):
    code = "retryable_commit_conflict"


class WriterBusy(ConflictError):
    code = "writer_busy"

    def __init__(self, holder: str, waited_s: float) -> None:
        super().__init__(f"another writer holds the graph ({holder}); waited {waited_s:g} s; retry")
        self.holder, self.waited_s = holder, waited_s


class UncoveredDrift(ConflictError):
    """A table is ahead of the manifest and no pending intent explains it."""

    code = "uncovered_drift"

    def __init__(self, table_key: str, manifest_version: int, lance_head_version: int) -> None:
        super().__init__(
            f"{table_key} is at version {lance_head_version} while the graph is at "
            f"{manifest_version}, and no pending write explains it; run `omnigraph repair`"
        )
        self.table_key = table_key
        self.manifest_version, self.lance_head_version = manifest_version, lance_head_version


class AlreadyExists(ConflictError):
    code = "already_exists"


class AlreadyInitialized(ConflictError):
    code = "already_initialized"

    def __init__(self, uri: str, found: str) -> None:
        super().__init__(f"{uri} already holds a graph ({found} exists)")
        self.uri, self.found = uri, found


class InitializationClaimed(ConflictError):
    code = "initialization_claimed"

    def __init__(self, uri: str, attempt_id: str) -> None:
        super().__init__(
            f"another initialization of {uri} holds the claim {attempt_id}; if that process is "
            "gone for good, remove __init_claim.json and try again"
        )
        self.uri, self.attempt_id = uri, attempt_id


class CloneUnfinished(ConflictError):
    code = "clone_unfinished"

    def __init__(self, uri: str, source: str) -> None:
        super().__init__(
            f"{uri} holds a part of a clone of {source}, which is under way or was interrupted; "
            "if nothing is copying any more, run the clone again with --force"
        )
        self.uri, self.source = uri, source


class SchemaContractMismatch(ConflictError):
    code = "schema_contract_mismatch"


class SchemaBreaksQueries(ConflictError):
    """A schema change that would break stored queries; nothing was changed."""

    code = "schema_breaks_queries"

    def __init__(self, broken: Sequence[tuple[str, str]]) -> None:
        assert broken, "a schema that breaks nothing is no error"
        first, more = broken[0], len(broken) - 1
        rest = f" (and {more} more)" if more else ""
        super().__init__(
            f"the schema would break the stored query '{first[0]}'{rest}: {first[1]}; "
            "change the query first, or remove it"
        )
        self.broken = tuple(broken)

    def details(self) -> Mapping[str, JsonValue]:
        return {"broken_queries": [{"query": name, "message": text} for name, text in self.broken]}


class SchemaOfCluster(ConflictError):
    """A schema change of a graph that a cluster manages; change the files of the cluster."""

    code = "schema_of_cluster"

    def __init__(self, graph_id: str) -> None:
        super().__init__(
            f"the schema of graph '{graph_id}' is managed by a cluster; change the cluster's files "
            "and run `omnigraph cluster apply`"
        )
        self.graph_id = graph_id


class SchemaChangeBlocked(ConflictError):
    """A schema change that would break other branches or tags."""

    code = "schema_change_blocked"

    def __init__(
        self,
        steps: Sequence[str],
        branches: Sequence[str] = (),
        tags: Sequence[str] = (),
        position: str | None = None,
    ) -> None:
        names = [f"branch '{name}'" for name in branches] + [f"tag '{name}'" for name in tags]
        where = f" ({position})" if position else ""
        super().__init__(
            f"cannot {steps[0]}{where} while there is {', '.join(names)}; "
            f"{'merge or delete the branches' if branches else 'delete the tags'} first"
        )
        self.steps, self.branches, self.tags = tuple(steps), tuple(branches), tuple(tags)
        self.position = position
        """The file, line and column of the declaration of the first step."""

    def details(self) -> Mapping[str, JsonValue]:
        blocked: dict[str, JsonValue] = {
            "steps": list(self.steps),
            "branches": list(self.branches),
            "tags": list(self.tags),
        }
        if self.position is not None:
            blocked["position"] = self.position
        return {"schema_change_blocked": blocked}


class CommitHasNoParent(ConflictError):
    code = "parentless_commit"

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit {commit_id} has no parent to compare with")
        self.commit_id = commit_id

    def details(self) -> Mapping[str, JsonValue]:
        refusal = {"reason": "parentless_commit", "graph_commit_id": self.commit_id}
        return {"change_diff_refusal": refusal}


class ChangeSchemaBoundary(ConflictError):
    code = "schema_boundary"

    def __init__(self, commit_id: str, type_name: str, advice: str | None = None) -> None:
        text = f"the schema of {type_name} changed at commit {commit_id}"
        super().__init__(text if advice is None else f"{text}; {advice}")
        self.commit_id, self.type_name = commit_id, type_name

    def details(self) -> Mapping[str, JsonValue]:
        return {
            "change_diff_refusal": {
                "reason": "schema_boundary",
                "graph_commit_id": self.commit_id,
                "type_name": self.type_name,
            }
        }
