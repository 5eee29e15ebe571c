"""How `./dev site` makes a site of the Markdown pages; they are written for the repository.

The pages stay where they are. The map that people use in the repository, `docs/README.md`, is the
navigation of the site: its sections are groups, its links are pages.
"""

from __future__ import annotations

import re
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
MAP = "docs/README.md"

project = "OmniGraph"
html_title = "OmniGraph"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/**/*.md", "bench/RESULTS.md", "deploy/README.md"]
exclude_patterns = [".*", "build", "src", "tests"]
html_theme = "furo"
html_extra_path = ["static"]  # an index.html that leads to the first page
html_show_copyright = False
html_show_sourcelink = False

# Headings are linked to by the names that repositories give them.
myst_heading_anchors = 4
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # excerpts and marks such as … are no syntax
highlight_language = "none"

_OUR_LANGUAGES = ("pg", "gq", "gq-clauses", "gq-tail", "gq-statements", "ebnf", "cypher")


def read_groups() -> list[tuple[str, list[str]]]:
    """The sections of the map, each with the pages it links to."""
    text = (ROOT / MAP).read_text()
    groups = []
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        links = re.findall(r"^- \[.*?\]\((.+?)\)", body, re.MULTILINE)
        paths = [((ROOT / MAP).parent / link).resolve().relative_to(ROOT) for link in links]
        groups.append((title, [str(path.with_suffix("")) for path in paths]))
    return groups


def add_navigation(app: Sphinx, name: str, source: list[str]) -> None:
    """Give the first page the groups of the map, where the theme looks for them."""
    del app
    if name != root_doc:
        return
    for title, pages in read_groups():
        listed = "\n".join(f"/{page}" for page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{listed}\n```\n"
    source[0] += "\n```{toctree}\n:hidden:\n\n/docs/README\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_navigation)
    for language in _OUR_LANGUAGES:
        app.add_lexer(language, TextLexer)
