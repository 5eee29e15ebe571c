"""The documentation agrees with the code: generated pages are current, all names are present."""

import re
from pathlib import Path

import pytest

import generate
import omnigraph
from generator.command_page import list_leaf_commands
from generator.error_page import list_error_classes
from omnigraph.cli.main import omnigraph as command_line
from omnigraph.graph.blobs import Blob
from omnigraph.graph.graph import Branch, Graph, GraphView
from omnigraph.graph.queries import QueryResult
from omnigraph.settings import SETTINGS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
LISTENING = "OMNIGRAPH_LISTEN_ADDR"
"""Printed by a server, and never read from the environment."""
ONE_PER_SERVER = "OMNIGRAPH_TOKEN_"
"""The beginning of variables that end with the name of a server."""


@pytest.mark.parametrize("name", generate.PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    text = (REFERENCE / name).read_text()
    assert text == generate.PAGES[name](), "run ./dev docs"


@pytest.mark.parametrize("name", generate.PARTS)
def test_a_generated_part_of_a_page_is_current(name: str) -> None:
    text = (ROOT / name).read_text()
    assert text == generate.replace_parts(name, text), "run ./dev docs"


@pytest.mark.parametrize("name", omnigraph.__all__)
def test_every_public_name_exists_and_is_documented(name: str) -> None:
    assert getattr(omnigraph, name) is not None
    assert f"omnigraph.{name}" in (REFERENCE / "sdk.md").read_text()


def public_names(kind: type) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]


@pytest.mark.parametrize("kind", [Graph, Branch, GraphView], ids=lambda kind: kind.__name__)
def test_every_public_method_of_graph_has_a_docstring_or_repeats_one(kind: type) -> None:
    for name in public_names(kind):
        member = getattr(kind, name)
        documented = member.__doc__ or getattr(getattr(Graph, name, None), "__doc__", None)
        assert documented or not callable(member), f"{kind.__name__}.{name} says nothing"


@pytest.mark.parametrize("name", public_names(Graph))
def test_every_verb_of_graph_is_in_the_reference(name: str) -> None:
    if name in ("close",):
        return
    assert re.search(rf"\b{name}\b", (REFERENCE / "sdk.md").read_text())


@pytest.mark.parametrize("kind", [GraphView, QueryResult, Blob], ids=lambda kind: kind.__name__)
def test_every_public_member_of_what_verbs_give_is_in_the_reference(kind: type) -> None:
    page = (REFERENCE / "sdk.md").read_text()
    unnamed = [n for n in public_names(kind) if not re.search(rf"\b{n}\b", page)]
    assert unnamed == []


def answers(folder: Path) -> list:
    """List the result classes of verbs, and the classes these hold."""
    schema = 'node A { k: String @key  n: I32?  b: Blob?  v: Vector(2)? @embed("k") }'
    settings = omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
    graph = omnigraph.init(folder / "g.omni", schema, settings=settings)
    records = [{"type": "A", "data": {"k": k, "b": "base64:AA=="}} for k in "xy"]
    loaded = graph.load([*records, {"type": "B"}], "append", on_error="skip")
    changed = graph.mutate('query q() { update A set { n: 1 } where k = "x" }')
    snapshot, optimized, cleaned = graph.snapshot(), graph.optimize(), graph.cleanup(keep=1)
    repaired = graph.repair()
    return [
        *(loaded, loaded.skipped, loaded.skipped.first[0], changed, changed.commit),
        *(snapshot, snapshot.tables[0], graph.create_branch("c"), graph.delete_branch("c")),
        *(optimized, optimized.tables[0], cleaned, cleaned.tables[0], graph.verify()),
        *(repaired, repaired.tables[0], graph.maintain(), graph.embed()),
        graph.query("query q() { match { $a: A } return { $a.n } }"),
        graph.read_blob("A", "x", "b").stat,
        graph.at().export_files(folder / "out"),
    ]


def test_members_of_documents_are_attributes_unless_the_page_says_otherwise(tmp_path: Path) -> None:
    page = (REFERENCE / "sdk.md").read_text()
    table = page.split("| In the document | In Python |\n|---|---|\n")[1].split("\n\n")[0]
    otherwise = set(
        re.findall(r"`(\w+)`", "\n".join(row.split("|")[1] for row in table.split("\n")))
    )
    for answer in answers(tmp_path):
        unnamed = {name for name in answer.wire() if not hasattr(answer, name)} - otherwise
        assert unnamed == set(), type(answer).__name__


def test_every_variable_the_code_reads_is_a_setting() -> None:
    known = {setting.name for setting in SETTINGS}
    assert len(known) == len(SETTINGS)
    mentioned = re.compile(r"[\"'`](OMNIGRAPH_[A-Z_]+)[\"'`]")
    for path in ROOT.glob("src/**/*.py"):
        for name in mentioned.findall(path.read_text()):
            is_known = name in known or name.startswith(("OMNIGRAPH_TEST_", ONE_PER_SERVER))
            assert is_known, f"{path.name} reads {name}"


def test_pages_name_only_commands_flags_and_variables_there_are() -> None:
    commands = dict(list_leaf_commands(command_line, "omnigraph"))
    flags = {flag for one in commands.values() for option in one.params for flag in option.opts}
    known = {setting.name for setting in SETTINGS}
    for page in [
        ROOT / "README.md",
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/how-to/*.md"),
        *REFERENCE.glob("*.md"),
    ]:
        text = page.read_text()
        for words in re.findall(r"^\s*(?:\$ )?omnigraph ((?:[a-z][a-z-]* ?){1,2})", text, re.M):
            first, *rest = words.split()
            is_one = f"omnigraph {first}" in commands or f"omnigraph {first} {rest[0]}" in commands
            assert is_one, f"{page.name}: omnigraph {words}"
        for name in re.findall(r"\bOMNIGRAPH_[A-Z_]+\b", text):
            is_known = name in known or name.startswith((ONE_PER_SERVER, LISTENING))
            assert is_known, f"{page.name}: {name}"
        for flag in re.findall(
            r"(?<![\w-])--[a-z][a-z-]+", re.sub(r"```(?!sh|console).*?```", "", text, flags=re.S)
        ):
            assert flag in flags or flag in ("--help", "--version"), f"{page.name}: {flag}"


def test_every_error_class_carries_a_code_of_its_own_category() -> None:
    classes = list(list_error_classes())
    codes = [one.code for one in classes if "code" in vars(one)]
    assert len(codes) == len(set(codes))
    drawn = omnigraph.errors.__doc__
    for one in classes:
        assert re.search(rf"\b{one.__name__}\b", drawn), f"{one.__name__} is not in the tree"


def test_nothing_names_a_path_on_one_machine() -> None:
    forbidden = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|Users)/\w")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]:
        assert not forbidden.search(path.read_text()), path
