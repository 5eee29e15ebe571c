"""The page of clusters: its text is in `cluster_page.txt`, its codes are those of the code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from generator.page_note import NOTE
from omnigraph.cluster.cluster_diagnostics import (
    APPLY_CODES,
    CONFIG_CODES,
    RECOVERY_CODES,
    SERVING_CODES,
    STATE_CODES,
    WARNINGS,
)

TEXT = Path(__file__).with_suffix(".txt")
CODES = {
    "CONFIG_CODES": CONFIG_CODES,
    "STATE_CODES": STATE_CODES,
    "APPLY_CODES": APPLY_CODES,
    "RECOVERY_CODES": RECOVERY_CODES,
    "SERVING_CODES": SERVING_CODES,
}


def render_cluster_page() -> str:
    text = TEXT.read_text().replace("@@NOTE@@", NOTE)
    for name, codes in CODES.items():
        text = text.replace(f"@@{name}@@", render_cluster_codes(codes))
    return text


def render_cluster_codes(codes: Mapping[str, str]) -> str:
    lines = ["| Code | Severity | Meaning |", "|---|---|---|"]
    for code, meaning in codes.items():
        lines.append(f"| `{code}` | {'warning' if code in WARNINGS else 'error'} | {meaning} |")
    return "\n".join(lines)
