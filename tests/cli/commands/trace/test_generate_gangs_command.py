"""``mirage trace generate --gangs``: what it writes, and the options that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.cli import main
from mirage.schedule.workload.generate_gangs import generate_gangs

GANGS = ["trace", "generate", "--gangs", "--jobs", "40", "--seed", "3"]


def test_it_writes_what_the_library_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gangs.csv"
    words = ["--epochs", "8", "--load", "0.7", "--cluster", "sia64", "--cap-days", "0.5", "-o", str(path)]
    assert main([*GANGS, *words]) == 0
    expected = generate_gangs(64, seed=3, jobs=40, load=0.7, epochs=8, cap_s=43200.0)
    assert path.read_text() == expected.to_csv()
    out, err = capsys.readouterr()
    assert out == ""
    assert "40 jobs over" in err
    assert "at load 0.70 of sia64" in err
    assert err.endswith(f"written to {path} for 'mirage schedule' with --cluster sia64\n")


def test_the_load_is_one_by_default(tmp_path: Path) -> None:
    path = tmp_path / "gangs.csv"
    assert main([*GANGS, "-o", str(path)]) == 0
    assert path.read_text() == generate_gangs(128, seed=3, jobs=40, load=1.0).to_csv()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*GANGS, "--like", "lonestar6-like"], "--gangs and --like exclude each other"),
        ([*GANGS, "--to", "swf"], "--gangs and --to exclude each other"),
        ([*GANGS, "-N", "4"], "--gangs and --nodes exclude each other"),
        ([*GANGS, "--check"], "--gangs and --check exclude each other"),
        ([*GANGS, "--timezone", "UTC"], "--gangs and --timezone exclude each other"),
        (["trace", "generate", "--gangs"], "--gangs needs --jobs or --days"),
        (["trace", "generate", "--jobs", "3", "--epochs", "4"], "--epochs needs --gangs"),
        (["trace", "generate", "--jobs", "3", "--cluster", "sia64"], "--cluster needs --gangs"),
    ],
)
def test_options_that_contradict_gangs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main([*words, "-o", str(tmp_path / "gangs.csv")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "gangs.csv").exists()


def test_only_csv_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GANGS, "-o", str(tmp_path / "gangs.parquet")]) == 2
    assert "gangs.parquet does not end in .csv" in capsys.readouterr().err
    assert main([*GANGS, "--days", "3", "--load", "1", "-o", str(tmp_path / "gangs.csv")]) == 1
    assert "of jobs, days and load 3 are given" in capsys.readouterr().err
