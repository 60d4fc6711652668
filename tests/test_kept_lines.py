"""Lines of results that are kept as they come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirage.errors import ConfigurationError
from mirage.kept_lines import KeptLines


def test_lines_are_found_again_in_order_but_for_one_that_was_cut_off(tmp_path: Path) -> None:
    lines = KeptLines(tmp_path / "new" / "folder", "lines.jsonl")
    assert list(lines) == []
    lines.add({"a": 1})
    with open(lines.path, "a", encoding="utf-8") as file:
        file.write('{"b": 2')
    KeptLines(tmp_path / "new" / "folder", "lines.jsonl").add({"c": [3]})
    assert list(KeptLines(tmp_path / "new" / "folder", "lines.jsonl")) == [{"a": 1}, {"c": [3]}]


def test_nothing_is_kept_in_no_folder() -> None:
    lines = KeptLines(None, "lines.jsonl")
    lines.add({"a": 1})
    assert (lines.path, list(lines)) == (None, [])


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    lines = KeptLines(tmp_path, "lines.jsonl")
    lines.path.unlink()
    lines.path.symlink_to("/dev/full")
    with pytest.raises(ConfigurationError, match=r"results in .*lines.jsonl: No space left.*with free space"):
        lines.add({"a": 1})


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot store results in"):
        KeptLines(tmp_path / "file" / "folder", "lines.jsonl")
