"""The journal of JSON lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.json_journal import JsonJournal


def test_lines_are_found_again_in_order_but_for_one_that_was_cut_off(tmp_path: Path) -> None:
    lines = JsonJournal(tmp_path / "new" / "folder", "lines.jsonl")
    assert list(lines) == []
    lines.add({"a": 1})
    with open(lines.path, "a", encoding="utf-8") as file:
        file.write('{"b": 2')
    JsonJournal(tmp_path / "new" / "folder", "lines.jsonl").add({"c": [3]})
    assert list(JsonJournal(tmp_path / "new" / "folder", "lines.jsonl")) == [{"a": 1}, {"c": [3]}]


def test_without_a_folder_nothing_is_stored() -> None:
    lines = JsonJournal(None, "lines.jsonl")
    lines.add({"a": 1})
    assert (lines.path, list(lines)) == (None, [])


def test_a_full_disk_is_reported_with_the_remedy(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    lines = JsonJournal(tmp_path, "lines.jsonl")
    lines.path.unlink()
    lines.path.symlink_to("/dev/full")
    with pytest.raises(ConfigurationError, match=r"results in .*lines.jsonl: No space left.*with free space"):
        lines.add({"a": 1})


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot store results in"):
        JsonJournal(tmp_path / "file" / "folder", "lines.jsonl")
