"""Every error a server can send is raised again by the client, as what it was."""

from __future__ import annotations

import inspect
import json
import typing

import pytest

from omnigraph import errors
from omnigraph.errors import (
    ClusterDiagnostic,
    Diagnostic,
    MergeConflict,
    RowProblem,
    Severity,
    TextRange,
    Violation,
    ViolationKind,
)
from omnigraph.wire.error_bodies import (
    HIDDEN,
    SHOWN,
    describe_error,
    list_error_classes,
    rebuild_error,
)

MISTAKE = Diagnostic(
    code="T4",
    stage="type",
    severity=Severity.ERROR,
    message="no edge type matches 'flies'",
    source="q.gq",
    line=2,
    column=12,
    span=TextRange(30, 35),
    line_text="$a flies $b",
    caret=3,
    hint="likes?",
)
CONFLICT = MergeConflict.of(
    "divergent_update", "node:A", "both changed it", "x", None, {"a": 1}, None
)
FINDING = ClusterDiagnostic("state_missing", Severity.ERROR, "state.json", "there is no ledger")
SAMPLES = {
    "cluster": errors.ClusterError([FINDING]),
    "compile_error": errors.CompileError([MISTAKE]),
    "rows_rejected": errors.RowsRejected([RowProblem("bad", "X1", "f", 3, "node:A", "x", "p")], 7),
    "constraint_violated": errors.ConstraintViolated(
        [Violation.of(ViolationKind.UNIQUE, "node:A", "twice", id="x", line=4)], 9
    ),
    "merge_conflicts": errors.MergeConflicts("merging 'a' into 'main'", [CONFLICT]),
    "schema_breaks_queries": errors.SchemaBreaksQueries([("q", "no type A")]),
    "policy_denied": errors.PolicyDenied(
        "no", actor="ben", action="change", branch="main", hidden=["A.b"]
    ),
    "deadline_exceeded": errors.DeadlineExceeded(2.5),
    "key_conflict": errors.KeyConflict("edge:A", "x", 3),
    "expected_version_mismatch": errors.ExpectedVersionMismatch("node:A", 3, 4),
    "storage_failure": errors.StorageFailure(errors.StorageKind.TRANSIENT, "no answer"),
}
"""Errors whose arguments cannot be made up from their types."""
MADE_UP = {str: "some", int: 3, float: 1.5, typing.Any: "some"}


def make_sample(kind: type[errors.OmniError]) -> errors.OmniError:
    if kind.code in SAMPLES:
        return SAMPLES[kind.code]
    hints = typing.get_type_hints(kind.__init__)
    given = {}
    for name in inspect.signature(kind).parameters:
        wanted = hints[name]
        options = typing.get_args(wanted) or (wanted,)
        plain = next((MADE_UP[one] for one in options if one in MADE_UP), None)
        given[name] = [plain] if "Sequence" in str(wanted) else plain
    return kind(**given)


def is_sent_whole(error: errors.OmniError) -> bool:
    return not isinstance(error, HIDDEN) or isinstance(error, SHOWN)


@pytest.mark.parametrize("code", list_error_classes())
def test_an_error_comes_back_as_the_class_of_its_code_with_its_facts(code: str) -> None:
    error = make_sample(list_error_classes()[code])
    answer = describe_error(error, "r1")
    body = json.loads(json.dumps(answer.body))
    again = rebuild_error(body, answer.status)
    assert type(again) is type(error)
    if is_sent_whole(error):
        assert again.message == error.message
        assert again.wire() == error.wire()
        known = {name: value for name, value in vars(error).items() if value is not None}
        assert {name: getattr(again, name) for name in known} == known
    else:
        assert error.message not in str(body)


@pytest.mark.parametrize(
    "error",
    [
        errors.PolicyDenied("no", actor=None, action="read"),
        errors.ChangeFeedGap(None, "c1"),
        errors.UnsupportedSchemaChange("A", "no"),
        errors.BlobChanged(None),
        errors.PreconditionFailed("main", "a", None),
    ],
)
def test_facts_that_an_error_lacks_are_none(error: errors.OmniError) -> None:
    again = rebuild_error(error.wire(), error.http_status)
    assert again.wire() == error.wire()
    assert {name: getattr(again, name) for name in vars(error)} == vars(error)


def test_a_fact_that_a_server_keeps_to_itself_is_none() -> None:
    answer = describe_error(errors.WriterBusy("pid 7 on host-a", 3.0), "r1")
    again = rebuild_error(answer.body, answer.status)
    assert isinstance(again, errors.WriterBusy)
    assert (again.holder, again.waited_s) == (None, None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (404, errors.NotFoundError),
        (409, errors.ConflictError),
        (413, errors.LimitError),
        (500, errors.OmniError),
    ],
)
def test_a_code_of_a_newer_server_is_raised_as_what_its_status_means(status, kind) -> None:
    error = rebuild_error({"error": "new", "kind": "of_tomorrow"}, status)
    assert (type(error), error.message) == (kind, "new")


def test_every_mistake_can_still_be_drawn_under_its_line() -> None:
    error = errors.CompileError([MISTAKE])
    again = rebuild_error(error.wire(), 400)
    assert isinstance(again, errors.CompileError)
    assert again.render() == error.render()
