"""Names and first lines use the words of the project; the script finds what they may not."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
WORDS = runpy.run_path(str(SCRIPTS / "words"))


def complaints(text: str, name: str = "module.py") -> list[str]:
    return list(WORDS["complaints"](WORDS["ROOT"] / name, text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("told = 1", "module.py:1: told has 'told' (declared"),
        ("def ask_once(): ...", "module.py:1: ask_once has 'ask'"),
        ("def f(kept): ...", "module.py:1: kept has 'kept'"),
        ("self.seen_s = 1", "module.py:1: seen_s has 'seen'"),
        ("class TriedByNobody: ...", "TriedByNobody has 'nobody'"),
        ("class Played: ...", "Played has a participle for a class"),
        ("import x as looks", "looks has 'looks'"),
        ("for is_put_off in (): ...", "is_put_off has 'put off'"),
        ('"""Whoever asks."""', "first line has 'whoever'"),
        ('"""Jobs that are let go.\n\nMore."""', "first line has 'let go' (release): Jobs that are let go."),
        (f'def f():\n    """{"x" * 89}"""', "module.py:2: first line has 89 columns, more than 88"),
    ],
)
def test_a_word_of_the_left_column_is_refused(text: str, found: str) -> None:
    assert found in "\n".join(complaints(text))


@pytest.mark.parametrize(
    "text",
    ["think_time_s = 1", '"""Keeps a chain alive."""', '"""The same seed gives the same schedule."""',
     "lookup = 1", "asker = 1", f'"""{"x" * 88}"""', '"""Right.\n\nNobody asks what is told below."""'],
)  # fmt: skip
def test_terms_of_the_field_pass(text: str) -> None:
    assert complaints(text) == []


def test_a_module_is_named_by_the_words_too() -> None:
    assert "module name has 'told'" in complaints("", "told_jobs.py")[0]


@pytest.mark.parametrize("folder", ["src", "scripts", "benchmarks", "tests", "docs", "examples"])
def test_all_of_the_project_is_checked_by_default(folder: str, tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPTS / "words", tmp_path / "scripts")
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "jobs.py").write_text("told = 1\n")
    found = subprocess.run([sys.executable, "scripts/words"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr.split(":")[0]) == (1, f"{folder}/jobs.py")
