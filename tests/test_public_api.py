"""``import mirage as m``: the public names, their modules, and what importing them costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import mirage

TEXT = Path(mirage.__file__).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", mirage.__all__)
def test_a_public_name_is_the_object_of_its_module(name: str) -> None:
    assert getattr(mirage, name) is getattr(import_module(mirage._HOMES[name]), name)
    assert getattr(mirage, name).__doc__, "what is public is documented"


def test_every_public_name_is_listed_typed_and_sorted() -> None:
    assert sorted(mirage._HOMES) == sorted(mirage.__all__) == mirage.__all__
    typed = {
        (node.module, alias.name)
        for node in ast.walk(ast.parse(TEXT))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("mirage.")
        for alias in node.names
    }
    assert typed == {(module, name) for name, module in mirage._HOMES.items()}
    assert set(mirage.__all__) <= set(dir(mirage))


def test_no_public_name_hides_a_room() -> None:
    rooms = {path.stem for path in Path(mirage.__file__).parent.iterdir()}
    assert not rooms & set(mirage.__all__)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"no public name 'Chian'; see mirage\.__all__"):
        mirage.Chian  # noqa: B018


def test_a_name_is_imported_when_it_is_used() -> None:
    loaded = "'mirage.sim' in sys.modules"
    program = f"import sys, mirage as m; before = {loaded}; m.Cluster.pool(2); print(before, {loaded})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
