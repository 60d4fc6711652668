"""``mirage doctor``: what it prints of what it finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.slurm.survey import Finding

FINDINGS = [
    Finding("ok", "version", "25.11"),
    Finding("warn", "MinJobAge", "60 s", "jobs are forgotten soon"),
    Finding("fail", "controller", "no answer", "is it up?"),
]


@pytest.mark.parametrize(("count", "status"), [(1, 0), (2, 0), (3, 1)])
def test_a_line_for_each_finding_and_its_advice_below(
    count: int, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: FINDINGS[:count])
    assert main(["doctor"]) == status
    lines = [
        "ok    version        25.11",
        "note  MinJobAge      60 s",
        "                     jobs are forgotten soon",
        "FAIL  controller     no answer",
        "                     is it up?",
    ]
    assert capsys.readouterr().out.splitlines() == lines[: 2 * count - 1]


def test_json_has_every_field_and_the_same_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: FINDINGS)
    assert main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[1:] == [
        {"level": "warn", "what": "MinJobAge", "value": "60 s", "advice": "jobs are forgotten soon"},
        {"level": "fail", "what": "controller", "value": "no answer", "advice": "is it up?"},
    ]


def test_where_there_is_no_slurm_it_reports_what_to_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MIRAGE_QUEUE", raising=False)
    assert main(["doctor"]) == 1
    first, advice = capsys.readouterr().out.splitlines()
    assert first == "FAIL  controller     no answer"
    assert advice.strip().startswith("cannot run s")
    assert advice.endswith("is Slurm's bin folder on PATH?")


def test_a_source_of_the_queue_that_there_is_not_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIRAGE_QUEUE", "sqeue")
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == (
        "mirage: error: unknown source of the queue in MIRAGE_QUEUE, 'sqeue'. Did you mean 'squeue'? "
        "Known: http://HOST:PORT of slurmrestd, scontrol, squeue.\n"
    )


def test_a_trial_that_is_refused_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("mirage.slurm.survey.survey", lambda slurm: [Finding("ok", "cluster", "c1")])
    for refusal, value in (
        ("srun: error: invalid partition specified: nopart", "not tried: Slurm takes no partition nopart"),
        ("srun: error: Access denied", "does not work: sbatch or srun refused"),
    ):
        (tmp_path / "srun").write_text(f"#!/bin/sh\necho {refusal} >&2\nexit 1\n")
        (tmp_path / "srun").chmod(0o755)
        assert main(["doctor", "--in-job", "-p", "nopart"]) == 1
        assert f"FAIL  agent in a job {value}" in capsys.readouterr().out
