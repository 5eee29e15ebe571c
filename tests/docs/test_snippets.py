"""Every Python example of the documentation runs, page by page, each in a folder of its own."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    if "```python" in page.read_text()
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "example"}
    text = page.read_text()
    for match in re.finditer(r"```python\n(.*?)```", text, flags=re.DOTALL):
        line = text[: match.start()].count("\n") + 1
        code = "\n" * line + match.group(1)
        exec(compile(code, str(page), "exec"), scope)
