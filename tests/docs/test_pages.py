"""Pages find each other, words mean one thing, and limits are those of the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from omnigraph.history.change_feed import MAX_CHANGES, MAX_COMMITS
from omnigraph.language.lexer import MAX_DEPTH
from omnigraph.language.source import MAX_SOURCE_CHARS
from omnigraph.plan.bind import MAX_STEPS
from omnigraph.settings import SETTINGS
from omnigraph.storage.layout import MAX_ENCODED_BYTES, MAX_SEGMENT_BYTES
from omnigraph.types.property import MAX_VECTOR_DIMENSION
from omnigraph.wire.http_protocol import MAX_KEY_LENGTH

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "deploy/README.md"]
LINK = re.compile(r"\]\(([^)#:\s]*)(#[^)\s]+)?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.S)
(SERVER_LOAD,) = (one for one in SETTINGS if one.name == "OMNIGRAPH_SERVER_LOAD_MIB")
LIMITS = (ROOT / "docs" / "limits.md").read_text()


@cache
def anchors_of(page: Path) -> set[str]:
    """The names that a repository, and the site, give the headings of a page."""
    found: set[str] = set()
    for heading in re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M
    ):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        again = 1
        while f"{name}-{again}" in found:
            again += 1
        found.add(f"{name}-{again}" if name in found else name)
    return {f"#{name}" for name in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(CODE.sub("", page.read_text())):
        place = (page.parent / target).resolve() if target else page
        assert place.exists(), f"links to {target}"
        assert not place.is_dir(), f"links to the folder {target}, which is no page of the site"
        if anchor and place.suffix == ".md":
            assert anchor in anchors_of(place), f"{target} has no heading {anchor}"


def list_linked(page: Path) -> list[Path]:
    return [(page.parent / target).resolve() for target, _ in LINK.findall(page.read_text())]


def test_the_map_names_every_page_once() -> None:
    page, routes = ROOT / "docs" / "README.md", ROOT / "docs" / "reference" / "http.md"
    linked = list_linked(page)
    assert len(linked) == len(set(linked))
    of_routes = {one for one in list_linked(routes) if one.parent.name == "http"}
    unnamed = set(ROOT.glob("docs/**/*.md")) - {page, *linked, *of_routes}
    assert not unnamed, f"add to docs/README.md: {[path.name for path in unnamed]}"


# --- words ---------------------------------------------------------------------------------------


def words_of(page: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    return [word for word in re.findall(r"^\| (.+?) \| .+ \|$", text, re.M) if word != "Word"]


@pytest.mark.parametrize("page", ["glossary.md", "internals/glossary.md"])
def test_a_glossary_is_in_order(page: str) -> None:
    words = words_of(page)
    assert len(words) > 10
    assert words == sorted(words, key=str.lower)


def test_no_word_is_explained_twice() -> None:
    assert not set(words_of("glossary.md")) & set(words_of("internals/glossary.md"))


def test_every_word_that_concepts_introduces_is_in_the_glossary() -> None:
    marked = re.findall(r"\*\*(\w[\w -]*)\*\*", (ROOT / "docs" / "concepts.md").read_text())
    known = set(words_of("glossary.md"))
    assert len(marked) > 30
    for word in map(str.lower, marked):
        assert known & {word, word.removesuffix("s"), re.sub("ies$", "y", word)}, word


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("steps of one `match`", f"{MAX_STEPS}"),
        ("text of a schema or a query file", f"{MAX_SOURCE_CHARS // 2**20} MiB"),
        ("nesting of conditions and blocks", f"{MAX_DEPTH}"),
        ("dimensions of a vector", f"{MAX_VECTOR_DIMENSION:,}"),
        ("name of a branch", f"{MAX_SEGMENT_BYTES} bytes between two slashes, {MAX_ENCODED_BYTES}"),
        ("an idempotency key", f"{MAX_KEY_LENGTH} characters"),
        ("changes in one page of the feed", f"{MAX_CHANGES:,}, of {MAX_COMMITS} commits"),
        ("a load through the server", f"{SERVER_LOAD.default >> 20} MiB"),
    ],
)
def test_a_limit_of_the_page_is_the_one_of_the_code(what: str, limit: str) -> None:
    (said,) = re.findall(rf"^\| {re.escape(what)} \| (.+) \|$", LIMITS, re.M)
    assert said.startswith(limit)
