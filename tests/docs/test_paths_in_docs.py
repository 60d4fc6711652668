"""Every file of the project that the README or a page of the docs names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = (ROOT, ROOT / "src", ROOT / "src" / "mirage")
PATH = re.compile(r"(?<![\w/.-])(?:[\w-]+/)+\w+\.py\b")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_of_the_project_that_a_page_names_exist(page: Path) -> None:
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    assert not sorted(path for path in named if not any((folder / path).exists() for folder in FOLDERS))


def test_pages_name_files_of_the_project() -> None:
    assert len({path for page in PAGES for path in PATH.findall(page.read_text(encoding="utf-8"))}) > 40
