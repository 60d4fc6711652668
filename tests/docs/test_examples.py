"""Every program in ``examples`` runs, prints, is short, and uses only public names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error", str(path)], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_uses_public_names(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 30
    imported = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom | ast.Import)]
    ours = [ast.unparse(node) for node in imported if "mirage" in ast.unparse(node)]
    assert ours == ["import mirage as m"]


def test_every_example_is_described() -> None:
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES if f"`{path.name}`" not in page] == []
    assert len(EXAMPLES) == 10
