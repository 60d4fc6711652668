"""``mirage train decima``: a network trained for a moment, and scheduled with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mirage.cli import main
from mirage.dag.schedulers.stage_schedulers import make_scheduler

pytest.importorskip("torch", reason="pip install mirage-hpc[learn]")
pytest.importorskip("safetensors", reason="pip install mirage-hpc[predict]")


@pytest.mark.slow
def test_a_trained_network_is_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "network.model"
    command = ["train", "decima", "-o", str(out), "--imitations", "1", "--iterations", "0", "--judged", "1", "--json"]
    assert main(command) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert (report["model"], report["steps"], len(report["curve"])) == (str(out), 1, 1)
    assert 0 < report["argmax_50/200_jct_s"] < report["argmax_10/50_jct_s"]
    assert "imitation_loss" in printed.err
    assert make_scheduler(f"decima-argmax:{out}").seeded is False
    assert main([*command, "--seed", "5"]) == 1
    assert "another plan" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "decima", "-o", str(tmp_path / "none" / "network.model")]) == 1
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize("steps", [["--minutes", "0"], ["--imitations", "0", "--iterations", "0"]])
def test_a_network_that_has_learnt_nothing_is_not_written(
    steps: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "typo.checkpoint")
    words = ["train", "decima", "--resume", absent, "--judged", "0", "-o", str(tmp_path / "network.model")]
    assert main([*words, *steps]) == 1
    assert f"the network has learnt nothing: there is no {absent}, and no step" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
