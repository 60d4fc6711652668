"""``mirage predict --waits``: a model of queue waits that was trained on accounting, asked beside the queue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mirage.cli import context as cluster
from mirage.cli import main
from mirage.duration import DAY_S
from mirage.lab.commands.server import Served, served_slurm
from tests.support.site_slurm import site_slurm

pytest.importorskip("xgboost", reason="pip install mirage-hpc[predict]")

Type = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with served_slurm(site_slurm(days=30, jobs=700)) as served:
        yield served


@pytest.fixture
def type_(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], utc: None
) -> Type:
    monkeypatch.setenv("PATH", served.environment["PATH"])
    monkeypatch.setenv("MIRAGE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(cluster, "clock", served.slurm.clock)
    monkeypatch.chdir(tmp_path)

    def typed(*words: str, status: int = 0) -> tuple[str, str]:
        assert main(list(words)) == status
        printed = capsys.readouterr()
        return printed.out, printed.err

    return typed


@pytest.fixture
def model(type_: Type, tmp_path: Path) -> str:
    """Trained on what sacct tells of this cluster, as its user would."""
    now_s = int(cluster.clock())
    (tmp_path / "accounts.txt").write_text(cluster.client().history(now_s - 30 * DAY_S, now_s))
    type_("train", "predict", "accounts.txt", "--hold-out", "0.1", "-o", "waits.model")
    return "waits.model"


def test_what_the_model_says_stands_beside_the_range(type_: Type, model: str) -> None:
    report = json.loads(type_("predict", "--waits", model, "--json", "-N", "1", "-t", "1:00:00")[0])["by_accounts"]
    assert list(report) == ["model", "median", "50%", "80%", "95%"]
    ends = [
        report["95%"][0],
        report["80%"][0],
        report["50%"][0],
        report["median"],
        *(report[k][1] for k in ("50%", "80%", "95%")),
    ]
    assert ends == sorted(ends)
    assert ends[0] >= 0
    larger = json.loads(type_("predict", "--waits", model, "--json", "-N", "4", "-t", "1:00:00")[0])["by_accounts"]
    assert larger["median"] > report["median"], "four nodes of four wait longest"
    lines = type_("predict", "--waits", model, "-N", "1", "-t", "1:00:00")[0].splitlines()
    assert lines[-1].startswith("  accounts in ")
    assert lines[-1].endswith("by waits.model, without the queue")
    assert "by_accounts" not in json.loads(type_("predict", "--json", "-N", "1", "-t", "1:00:00")[0])


@pytest.mark.parametrize("words", [["--mine"], ["--job", "1"], ["--compare", "-N", "1"], ["--calibration"]])
def test_it_is_asked_about_one_job_to_be_submitted(type_: Type, words: list[str]) -> None:
    assert "--waits predicts one job to submit" in type_("predict", "--waits", "x", *words, status=2)[1]


def test_a_model_that_is_not_there_is_named(type_: Type) -> None:
    printed = type_("predict", "--waits", "absent.model", "-N", "1", "-t", "1:00:00", status=1)[1]
    assert "absent.model: no such file; 'mirage train predict' makes one" in printed
