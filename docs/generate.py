"""Writes the pages, and parts of pages, that repeat what the code says.

Usage: python docs/generate.py [--check]

What each page says is in `generator/`; a test checks that all of them are current.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from generator.benchmark_part import render_benchmarks
from generator.cluster_page import render_cluster_page
from generator.code_page import render_code_page
from generator.command_page import render_command_page
from generator.error_page import render_error_page
from generator.http_pages import render_http_page, render_openapi, render_route_page
from generator.routes import list_routes
from generator.settings_page import render_settings_page

ROOT = Path(__file__).parents[1]
REFERENCE = Path(__file__).parent / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "cluster.md": render_cluster_page,
    "http.md": render_http_page,
    **{f"http/{one.name}.md": partial(render_route_page, one) for one in list_routes()},
    "openapi.json": render_openapi,
    "errors.md": render_error_page,
    "diagnostics.md": render_code_page,
    "settings.md": render_settings_page,
    "cli.md": render_command_page,
}
PARTS: dict[str, dict[str, Callable[[], str]]] = {"README.md": {"benchmarks": render_benchmarks}}
"""The parts of pages written by hand that are not: from `<!-- name -->` to `<!-- /name -->`."""


def replace_parts(page: str, text: str) -> str:
    for name, part in PARTS[page].items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        assert found, f"{page} has no part {name}"
        text = f"{before}{start}\n{part()}\n\n{end}{after}"
    return text


def main() -> int:
    stale = []
    texts = {REFERENCE / name: page() for name, page in PAGES.items()}
    texts |= {ROOT / name: replace_parts(name, (ROOT / name).read_text()) for name in PARTS}
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
    for path in (REFERENCE / "http").iterdir():
        if f"http/{path.name}" not in PAGES:  # of a route that is gone
            stale.append(f"http/{path.name}")
            if "--check" not in sys.argv:
                path.unlink()
    if stale:
        verb = "stale" if "--check" in sys.argv else "rewritten"
        sys.stdout.write(f"{verb}: {', '.join(stale)}\n")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
