"""The journal of a study."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import ConfigurationError
from mirage.study.journal import TrialJournal


def halves(path: Path) -> TrialJournal[int, float]:
    """A journal of halved numbers."""

    def half(plain: dict[str, Any]) -> float:
        return float(plain["half"])

    return TrialJournal(path, lambda trial: f"trial {trial}", half, lambda result: {"half": result})


def test_results_are_found_again_except_one_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "lines.jsonl"
    first = halves(path)
    assert first.get(3) is None
    first.add(3, 1.5)
    assert (first.get(3), halves(path).get(3)) == (1.5, 1.5)
    with open(path, "a", encoding="utf-8") as file:
        file.write('{"key": "trial 4", "half": 2')
    halves(path).add(5, 2.5)
    again = halves(path)
    assert [again.get(trial) for trial in (3, 4, 5)] == [1.5, None, 2.5]
    lines = path.read_text().splitlines()
    assert [json.loads(lines[k]) for k in (0, 2)] == [{"key": "trial 3", "half": 1.5}, {"key": "trial 5", "half": 2.5}]


def test_of_two_results_of_a_trial_the_last_counts(tmp_path: Path) -> None:
    for result in (1.5, 7.0):
        halves(tmp_path / "lines.jsonl").add(3, result)
    assert halves(tmp_path / "lines.jsonl").get(3) == 7.0


@pytest.mark.parametrize(
    "line", ["[1]", "3", "null", '{"half": 1}', '{"key": "trial 3"}', '{"key": "trial 3", "half": "much"}', "\x00"]
)
def test_lines_that_hold_something_else_are_skipped(tmp_path: Path, line: str) -> None:
    """A file may hold results of two kinds, each read by a journal of its own."""
    path = tmp_path / "lines.jsonl"
    path.write_text(line + "\n")
    halves(path).add(4, 2.0)
    assert (halves(path).get(3), halves(path).get(4)) == (None, 2.0)
    assert path.read_text().splitlines()[0] == line


def test_a_full_disk_is_reported_with_the_remedy(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full")
    lines = halves(tmp_path / "lines.jsonl")
    lines.path.unlink()
    lines.path.symlink_to("/dev/full")
    with pytest.raises(ConfigurationError, match=r"results in .*lines.jsonl: No space left.*with free space"):
        lines.add(1, 0.5)


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot store results in"):
        halves(tmp_path / "file" / "folder" / "lines.jsonl")


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"cannot store results in .*: .*file is no folder; name a writable"):
        halves(tmp_path / "file" / "lines.jsonl")
