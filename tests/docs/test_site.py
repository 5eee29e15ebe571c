"""The site: built from the pages of the repository, searchable from a folder, no dead links."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "site"
BUILDER = ROOT / ".venv-site" / "bin" / "sphinx-build"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built() -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "dev", "site"], capture_output=True, text=True, check=False)


def test_it_has_every_page_and_an_index_of_their_words(built) -> None:
    assert built.returncode == 0, built.stderr
    for page in ROOT.glob("docs/**/*.md"):
        assert (SITE / page.relative_to(ROOT)).with_suffix(".html").exists(), page
    assert "README.html" in (SITE / "index.html").read_text()
    # A script, and no file to be fetched: a browser runs it from a folder as well.
    index = (SITE / "searchindex.js").read_text()
    assert index.startswith("Search.setIndex(")
    assert all(word in index for word in ("cherri", "traver", "docs/how-to/cookbook"))


@pytest.mark.parametrize("link", ["nowhere.md", "limits.md#no-such-heading"])
def test_a_dead_link_fails_the_build(built, tmp_path: Path, link: str) -> None:
    assert built.returncode == 0, built.stderr
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("docs", "bench", "deploy"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("results"))
    with (tmp_path / "docs" / "concepts.md").open("a") as page:
        page.write(f"\n[gone]({link})\n")
    command = [BUILDER, "-q", "-W", "-c", tmp_path / "docs" / "site", tmp_path, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "concepts.md" in done.stderr
