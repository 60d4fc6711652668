"""Digests of source code change with what a module does, and with nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.source_digest import read_source, source_digest

MODULE = '''
"""What it is about."""

import other
from near import STEP, WIDTH

LIMIT_S = 60
"""A limit."""


class Table:
    """Rows."""

    def rows(self, n):
        """As many as asked for."""
        return n * STEP  # whole rows
'''


def digest(source: str) -> str:
    return read_source(source.encode(), "package.module").digest


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""What it is about."""', '"""Something else.\n\nAt length.\n"""'),
        ('"""A limit."""', '"""The limit of all limits."""'),
        ('    """Rows."""\n', ""),
        ('"""As many as asked for."""', '"""Exactly as many as asked for."""'),
        ("  # whole rows", ""),
        ("import other\n", "\n\nimport other\n\n\n"),
        ("n * STEP", "(n   *  STEP)"),
        ("LIMIT_S = 60", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import elsewhere\nLIMIT_S = 60"),
    ],
)
def test_how_a_module_reads_does_not_count(before: str, after: str) -> None:
    assert before in MODULE
    changed = MODULE.replace(before, after)
    expected = MODULE
    if "TYPE_CHECKING" in after:
        expected = MODULE.replace("LIMIT_S = 60", "from typing import TYPE_CHECKING\nLIMIT_S = 60")
    assert digest(changed) == digest(expected)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("60", "61"),
        ("n * STEP", "n + STEP"),
        ("class Table", "class Rows"),
        ("STEP, WIDTH", "STEP"),
        ("(self, n)", "(self, n=1)"),
    ],
)
def test_what_a_module_does_counts(before: str, after: str) -> None:
    assert before in MODULE
    assert digest(MODULE.replace(before, after)) != digest(MODULE)


def test_imports_are_those_made_when_the_module_is_imported() -> None:
    source = """
import one, two.three
from four import five, six as seven
from . import beside
from ..above import eight
try:
    import nine
except ImportError:
    import ten
if TYPE_CHECKING:
    import for_the_type_checker
else:
    import for_the_rest
class Inside:
    import eleven
def later():
    import twelve
"""
    found = read_source(source.encode(), "package.room.module").imports
    assert found == (
        "one", "two.three", "four:five six", "package.room:beside", "package.above:eight", "nine", "ten",
        "for_the_rest", "eleven",
    )  # fmt: skip
    assert read_source(b"from . import beside", "package.room", is_package=True).imports == ("package.room:beside",)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"'mirage\.nowhere'"):
        source_digest(["mirage.nowhere"])


# -- whole packages -------------------------------------------------------------------------------------------------


class Tree:
    """Modules in a folder of their own, and their digests as a new process finds them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder / "source", folder / "cache"
        self.write("shop/__init__.py", "")
        self.write("shop/till.py", "from shop import prices\nfrom shop.rooms.cellar import DEPTH\nimport beside\n")
        self.write("shop/prices.py", '"""Prices."""\nAPPLE = 3\n')
        self.write("shop/rooms/__init__.py", "")
        self.write("shop/rooms/cellar.py", "import shop.prices\nDEPTH = 2\n")
        self.write("shop/unrelated.py", "HAT = 1\n")
        self.write("beside.py", "FLOWERS = 1\n")

    def write(self, name: str, source: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)

    def digest(self, *modules: str) -> str:
        path = os.pathsep.join([str(self.folder), *sys.path])
        environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(self.cache)}
        script = "import sys; from mirage.source_digest import source_digest; print(source_digest(sys.argv[1:]))"
        command = [sys.executable, "-W", "error", "-c", script, *modules]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    @property
    def records(self) -> Path:
        (file,) = (self.cache / "mirage").iterdir()
        return file


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.mark.parametrize(
    ("file", "source", "counts"),
    [
        ("shop/prices.py", '"""All prices, in crowns."""\nAPPLE = 3\n', False),
        ("shop/prices.py", '"""Prices."""\nAPPLE = 4\n', True),
        ("shop/rooms/cellar.py", "import shop.prices\nDEPTH = 3\n", True),
        ("beside.py", "FLOWERS = 2\n", True),
        ("shop/unrelated.py", "HAT = 2\n", False),
    ],
)
def test_a_digest_covers_what_is_imported(tree: Tree, file: str, source: str, counts: bool) -> None:
    before = tree.digest("shop.till")
    tree.write(file, source)
    assert (tree.digest("shop.till") != before) is counts


def test_digests_cached_on_disk_are_those_of_the_files_as_they_are(tree: Tree) -> None:
    first = tree.digest("shop.till")
    known = json.loads(tree.records.read_text())
    file = str(tree.folder / "shop" / "prices.py")
    known[file][2] = "0" * 64
    tree.records.write_text(json.dumps(known))
    assert tree.digest("shop.till") != first, "a file whose time and size are unchanged is not parsed again"
    os.utime(file, ns=(0, 0))
    assert tree.digest("shop.till") == first


@pytest.mark.parametrize("rubbish", ["", "[1, 2", "[1, 2]", "3", '{"x": 3}'])
def test_a_damaged_record_costs_parsing_only(tree: Tree, rubbish: str) -> None:
    first = tree.digest("shop.till")
    tree.records.write_text(rubbish)
    assert tree.digest("shop.till") == first


def test_a_folder_that_cannot_be_written_costs_parsing_only(tree: Tree) -> None:
    first = tree.digest("shop.till")
    tree.cache = tree.folder / "beside.py"  # no folder can be made in there
    assert tree.digest("shop.till") == first
