"""The pages that are written by hand: README and docs, without what a build makes."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_MADE = {"_build", "reference"}

DOCUMENTS = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in _MADE),
]
