"""Every file of the project that the README or a page of the docs names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documents import DOCUMENTS, ROOT

FOLDERS = (ROOT, ROOT / "src", ROOT / "src" / "mirage")
PATH = re.compile(r"(?<![\w/.-])(?:[\w-]+/)+\w+\.py\b")


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: page.stem)
def test_files_of_the_project_that_a_page_names_exist(page: Path) -> None:
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    assert not sorted(path for path in named if not any((folder / path).exists() for folder in FOLDERS))


def test_every_row_of_a_table_has_the_cells_of_its_header() -> None:
    wrong, tables = [], 0
    for page in DOCUMENTS:
        width = 0
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            cells = len(re.findall(r"(?<!\\)\|", line)) - 1 if line.startswith("|") else 0
            tables += cells > 0 and not width
            if cells and width and cells != width:
                wrong.append(f"{page.name}:{number}: {cells} cells, not {width}")
            width = cells and (width or cells)
    assert not wrong
    assert tables > 100


def test_pages_name_files_of_the_project() -> None:
    assert len({path for page in DOCUMENTS for path in PATH.findall(page.read_text(encoding="utf-8"))}) > 40


def test_folders_that_the_environment_names_are_documented() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    page = (ROOT / "docs" / "how-to" / "command-line.md").read_text(encoding="utf-8")
    names = set(re.findall(r'"(XDG_\w+_HOME)"', source))
    assert len(names) == 2
    assert [name for name in sorted(names) if f"| `{name}` |" not in page] == []
