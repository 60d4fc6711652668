"""A trace as a command reads it: the reader's options, its complaints on standard error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirage.cli import root
from mirage.cli.options import TraceOptions
from mirage.cli.trace_reading import read_named_trace
from mirage.errors import TraceError

READING = TraceOptions(None, None, None, "UTC", False)


@pytest.mark.parametrize(
    ("days", "warned"),
    [
        ((0, 1, 367), ""),
        ((0, 1, 3, 19_000), "has no submission from 1970-01-04 to 2022-01-08, and 1 job after that; is a date wrong?"),
        ((0, 2, 19_000, 19_001, 19_002), "from 1970-01-03 to 2022-01-08, and 2 jobs before that; is a date wrong?"),
    ],
)
def test_a_gap_of_years_is_a_warning(
    days: tuple[int, ...], warned: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,submit_s,nodes\n" + "".join(f"{day},{day * 86_400},1\n" for day in days))
    read_named_trace(str(path), READING)
    printed = capsys.readouterr().err
    assert warned in printed
    assert bool(warned) is bool(printed)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("JobID|Submit|NNodes\n7|1000|4\n", {}),
        ("7|1000|4\n", {"fields": "JobID,Submit,NNodes"}),
        ("JobID;Submit;NNodes\n7;1000;4\n", {"delimiter": ";"}),
        ("JobID\tSubmit\tNNodes\n7\t1000\t4\n", {"delimiter": "\\t"}),
        ("JobID|Submit|NNodes\n7|1970-01-01T00:16:40|4\n", {"format": "sacct"}),
        ("who;when;n\n7;1000;4\n", {"columns": "job_id=who,submit_s=when[s],nodes=n"}),
        (
            "who\twhen\tn\n7\t1970-01-01 09:16:40\t4\n",
            {"columns": "job_id=who,submit_s=when,nodes==4", "delimiter": "\\t", "timezone": "Asia/Tokyo"},
        ),
        ("JobID|Submit|NNodes\n7|1970-01-01T09:16:40|4\n", {"timezone": "Asia/Tokyo"}),
    ],
)
def test_the_same_job_however_it_is_written(
    text: str, given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    table = read_named_trace(str(path), replace(READING, **given)).table
    assert (table.job_id.tolist(), table.submit_s.tolist(), table.nodes.tolist()) == (["7"], [1000], [4])
    assert capsys.readouterr() == ("", "")


def test_a_bad_line_stops_unless_it_is_to_be_skipped_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|Submit|NNodes\n7|1000|4\n8|1000\n9|1000\n")
    with pytest.raises(TraceError, match=f"^{path}:3: too few fields"):
        read_named_trace(str(path), READING)
    assert capsys.readouterr().err == ""
    assert len(read_named_trace(str(path), replace(READING, skip_bad_lines=True)).table) == 1
    assert capsys.readouterr() == ("", f"mirage: {path}:3: too few fields (the first of 2 skipped for this)\n")


@pytest.mark.parametrize(
    ("given", "unused"),
    [
        ({"fields": "JobID", "delimiter": ";"}, "--fields and --delimiter"),
        ({"fields": "JobID", "delimiter": ",", "columns": "job_id=job_id"}, "--fields"),
        ({"delimiter": ",", "columns": "job_id=job_id"}, ""),
    ],
)
def test_options_that_a_format_does_not_have_are_a_warning(
    given: dict[str, Any], unused: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("job_id,nodes\n7,1\n")
    read_named_trace(str(path), replace(READING, format="csv", **given))
    warning = f"mirage: warning: {path} is read as csv, which does not use {unused}\n"
    assert capsys.readouterr().err == (warning if unused else "")


@pytest.mark.parametrize(
    "words", ["trace info", "trace convert", "trace fit", "trace generate", "simulate", "evaluate"]
)
def test_every_command_that_reads_a_trace_takes_the_columns_of_any_csv(words: str) -> None:
    done = CliRunner().invoke(root, [*words.split(), "--help"])
    assert "--columns MAP" in done.output
