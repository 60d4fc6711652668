"""Files of this copy: the pages written by hand, and the script that installs."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SETUP = ROOT / "scripts" / "setup"
_MADE = {"_build", "reference"}

DOCUMENTS = [
    ROOT / "README.md",
    *sorted(path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in _MADE),
]
