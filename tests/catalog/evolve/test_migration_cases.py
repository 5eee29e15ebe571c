import pytest

from catalog.evolve.migration_cases import Case, read_cases
from omnigraph.catalog.assign_identities import IDENTITY_CODES, identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.schema_lint import SCHEMA_LINT_CODES, LintFamily
from omnigraph.errors import CompileError, Severity
from omnigraph.evolution.migration_plan import MigrationPlan, PlannedMigration, plan_migration
from omnigraph.evolution.migration_steps import UnsupportedChange
from omnigraph.language.source import SourceText

CASES = read_cases()


def migrate(case: Case) -> PlannedMigration:
    accepted = identify_first(compile_schema(SourceText(case.accepted, "accepted.pg")), "D")
    desired = compile_schema(SourceText(case.desired, "desired.pg"))
    return plan_migration(accepted, desired, allow_data_loss=case.allow_data_loss)


def run(case: Case) -> MigrationPlan:
    return migrate(case).plan


def simplified(plan: MigrationPlan, case: Case) -> list[object]:
    """The steps as the case writes them: of a reason, only the text in the case."""
    reported: list[object] = []
    for index, step in enumerate(plan.steps):
        if isinstance(step, UnsupportedChange):
            wanted = case.steps[index] if index < len(case.steps) else None
            text = wanted[2] if isinstance(wanted, tuple) and wanted[2] in step.reason else None
            reported.append((step.entity, step.code, text or step.reason))
        else:
            reported.append(step.wire())
    return reported


@pytest.mark.parametrize("case", [c for c in CASES if not c.errors], ids=lambda c: c.name)
def test_a_migration_is_planned_as_the_case_says(case):
    plan = run(case)
    assert simplified(plan, case) == case.steps
    assert plan.supported is not any(isinstance(step, tuple) for step in case.steps)
    assert set(case.lines) <= {step.describe() for step in plan.steps}
    for code, text in case.notes:
        assert any(n.code == code and text in n.message for n in plan.notes), plan.notes


@pytest.mark.parametrize("case", [c for c in CASES if c.errors], ids=lambda c: c.name)
def test_a_bad_rename_is_refused_as_the_case_says(case):
    with pytest.raises(CompileError) as refused:
        run(case)
    found = refused.value.diagnostics
    assert [d.code for d in found] == [code for code, _ in case.errors]
    for diagnostic, (_, text) in zip(found, case.errors, strict=True):
        assert text in diagnostic.message
        assert (diagnostic.stage, diagnostic.severity) == ("catalog", Severity.ERROR)
        # The caret stands under a declaration that carries a hint.
        assert "@rename_from" in case.desired[diagnostic.start :].splitlines()[0]


@pytest.mark.parametrize("case", [c for c in CASES if not c.errors], ids=lambda c: c.name)
def test_every_drop_of_stored_data_has_a_coded_note(case):
    plan = run(case)
    drops = [
        step.describe()
        for step in plan.steps
        if step.wire()["kind"] in ("drop_type", "drop_property")
        and step.wire()["type_kind"] != "interface"
    ]
    notes = [n for n in plan.notes if n.code.startswith("OG-DS-")]
    assert [n.message.partition(":")[0] for n in notes] == drops
    assert {n.severity for n in notes} <= {Severity.INFO}


@pytest.mark.parametrize("case", [c for c in CASES if not c.errors], ids=lambda c: c.name)
def test_an_applied_plan_leaves_nothing_to_do(case):
    plan = migrate(case)
    again = plan_migration(plan.catalog, compile_schema(SourceText(case.desired)))
    assert again.steps == ()
    assert again.catalog == plan.catalog


def test_the_cases_show_every_step_kind_and_both_drop_modes():
    steps = [step for case in CASES for step in case.steps if isinstance(step, dict)]
    assert {step["kind"] for step in steps} == {
        "add_type",
        "rename_type",
        "add_property",
        "rename_property",
        "add_constraint",
        "remove_constraint",
        "change_property_type",
        "change_cardinality",
        "extend_enum",
        "update_type_metadata",
        "update_property_metadata",
        "drop_type",
        "drop_property",
    }
    dropped = {(s["kind"], s["mode"]) for s in steps if "mode" in s}
    assert len(dropped) == 4


def test_the_cases_show_every_code_a_migration_can_carry():
    families = (LintFamily.DESTRUCTIVE, LintFamily.MAYBE_FAIL)
    expected = {
        c.code for c in SCHEMA_LINT_CODES.values() if c.family in families and not c.reserved
    }
    # A schema that creates a graph is not a migration, so its code is tested with creation.
    expected |= set(IDENTITY_CODES) - {"S186"}
    shown = {code for case in CASES for code, _ in (*case.notes, *case.errors)}
    shown |= {step[1] for case in CASES for step in case.steps if isinstance(step, tuple)}
    assert expected <= shown


def test_the_cases_show_every_unsupported_change():
    reasons = " | ".join(step[2] for c in CASES for step in c.steps if isinstance(step, tuple))
    for fragment in (
        "adding required property",
        "changing property type",
        "@embed source or model",
        "removing @key",
        "property constraints",
        "changing edge endpoints",
        "changing implemented interfaces",
        "declaration provenance",
        "satisfaction links",
        "removing interface",
        "beyond @description/@instruction",
    ):
        assert fragment in reasons


def test_a_plan_that_cannot_be_applied_has_its_first_reason_with_its_code():
    case = next(c for c in CASES if "types that hold the values" in c.name)
    refused = run(case).first_unsupported
    assert refused.reason.startswith("changing")
    assert refused.entity == "node:Doc.a"
    assert refused.code == "OG-MF-106"
