"""The commands of docs/explanation/schedule.md, typed in order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mirage.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "schedule.md"


@pytest.mark.slow
def test_the_first_commands_of_the_page_work_when_typed_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (cluster,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    typed = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0].splitlines()
    assert [line.split()[1:3] for line in typed] == [
        ["trace", "generate"],
        ["schedule", "compare"],
        ["schedule", "run"],
    ]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpus.toml").write_text(cluster)
    for line in typed:
        here = ["--workers", "1"] if "compare" in line else []  # a process costs more than the work
        assert main([*shlex.split(line)[1:], *here]) == 0, line
    printed = capsys.readouterr().out
    assert re.search(r"month +srtf ", printed)
    assert "job 7: " in printed
    assert "Jobs on GPUs" in (tmp_path / "run.html").read_text()
