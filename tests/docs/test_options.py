"""The table of options: each has one short form and one kind of value everywhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
KINDS = {
    "path": {"FILE", "DIR", "MODEL", "TREE", "OUT", "FILE|NAME"},
    "number": {"N", "LIST", "N,…"},
    "port": {"PORT", "N"},
}
"""Words for values that are of one kind."""

AS_IN_SQUEUE = {"--format"}
"""``mirage chain list --format`` is that of squeue; in all other commands it is the format of a trace."""

WAYS = {"--job"}
"""``mirage agent install --job`` is a way to start the agent; ``mirage predict --job ID`` names a job."""


@pytest.fixture(scope="module")
def pages() -> Any:
    """The module that writes the reference."""
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kind(word: str) -> set[str]:
    """Kinds that a word for a value may stand for; a list of something is of its kind."""
    return {name for name, words in KINDS.items() if word in words} or {word.removesuffix(",…")}


def test_an_option_has_one_short_form_and_one_kind_of_value_in_all_commands(pages: Any) -> None:
    uses = pages.option_uses()
    assert len(uses) > 150
    wrong = []
    for name, found in uses.items():
        if name in AS_IN_SQUEUE | WAYS:
            continue
        if len({tuple(sorted(use.option.opts)) for use in found}) > 1:
            wrong.append(f"{name}: {[(use.command, use.option.opts) for use in found]}")
        if not set.intersection(*(kind(use.value) for use in found)):
            wrong.append(f"{name}: {[(use.command, use.value) for use in found]}")
    assert not wrong


def test_no_option_but_a_flag_of_a_few_has_a_short_form_alone(pages: Any) -> None:
    assert [name for name in pages.option_uses() if not name.startswith("--")] == []


@pytest.mark.parametrize("name", ["plots", "page", "chart", "picture", "checkpoint", "output"])
def test_what_a_command_writes_is_out_plot_or_report(name: str, pages: Any) -> None:
    assert f"--{name}" not in pages.option_uses()


def test_the_page_has_a_row_of_four_cells_for_every_option(pages: Any, tmp_path: Path) -> None:
    pages.write_pages(DOCS.parent / "src" / "mirage", tmp_path)
    rows = [line for line in (tmp_path / "options.md").read_text().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    shown = {re.findall(r"`(--[\w-]+)`", row)[0] for row in rows[2:]}
    assert shown == set(pages.option_uses())
