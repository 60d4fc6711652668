"""``mirage predict --waits``: a model trained on accounting, next to the queue's range."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mirage.cli import cli_context as cluster
from mirage.cli import main
from mirage.cli.commands.predict.reported_prediction import ReportedPrediction, blended
from mirage.duration import DAY_S
from mirage.job_state import MISSING
from mirage.lab.commands.server import Served, served_slurm
from mirage.predict.start.blended_ranges import QuantileBlend
from mirage.predict.start.predictor import StartPrediction
from mirage.predict.start.promise import OPEN, SETTLED
from mirage.predict.start.promise_file import Promises
from mirage.predict.start.quantile_levels import LEVELS
from mirage.slurm.backend import cluster_of
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
    """Trained on what sacct reports of this cluster, as its user would."""
    now_s = int(cluster.clock())
    (tmp_path / "accounts.txt").write_text(cluster.client().history(now_s - 30 * DAY_S, now_s))
    type_("train", "predict", "accounts.txt", "--hold-out", "0.1", "-o", "waits.model")
    return "waits.model"


def test_the_wait_of_the_model_is_next_to_the_range(type_: Type, model: str) -> None:
    report = json.loads(type_("predict", "--waits", model, "--json", "-N", "1", "-t", "1:00:00")[0])["by_accounts"]
    assert list(report) == ["model", "median", "50%", "80%", "95%", "blended_by"]
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
    words = ("--json", "-N", "1", "-t", "1:00:00", "--begin=now+1day")
    later = json.loads(type_("predict", "--waits", model, *words)[0])["by_accounts"]
    assert later["median"] == report["median"] + DAY_S
    lines = type_("predict", "--waits", model, "-N", "1", "-t", "1:00:00")[0].splitlines()
    assert lines[-1].startswith("  accounts in ")
    assert lines[-1].endswith("by waits.model, without the queue")
    assert "by_accounts" not in json.loads(type_("predict", "--json", "-N", "1", "-t", "1:00:00")[0])


def test_ranges_are_blended_by_what_became_of_earlier_promises(type_: Type, model: str, tmp_path: Path) -> None:
    words = ["predict", "--waits", model, "-N", "4", "-t", "2:00:00", "-J", "train"]
    first = json.loads(type_(*words, "--json")[0])
    alone = json.loads(type_(*[word for word in words if word not in ("--waits", model)], "--json")[0])
    assert first["wait"] == alone["wait"], "no outcome, no blend"
    assert first["by_accounts"]["blended_by"] == 0
    assert f"ranges not blended with {model}" in type_(*words)[1]
    promises, here = Promises(tmp_path / "home" / "promises.db"), cluster_of(cluster.client().configuration())
    ((_, promise),) = promises.of(here, OPEN)
    assert promise.reported_s == promise.parts_s[0]
    assert promise.parts_s[1][3] == first["by_accounts"]["median"]
    wait_s = promise.parts_s[1][3] + 3600.0
    parts_s = (promise.parts_s[0], tuple(wait_s + 0.0 * value for value in promise.reported_s))
    now_s = int(cluster.clock())
    for k in range(200):
        made = replace(promise, made_s=now_s - 7 * DAY_S, job=1000 + k, submit_s=k, state=SETTLED, wait_s=wait_s)
        promises.add(replace(made, parts_s=parts_s))
    report = json.loads(type_(*words, "--json")[0])
    assert report["by_accounts"]["blended_by"] == 200
    to_model = abs(report["wait"]["median"] - report["by_accounts"]["median"])
    assert to_model < 0.2 * abs(first["wait"]["median"] - first["by_accounts"]["median"])
    assert "ranges blended with waits.model, by 200 promises made with a model" in type_(*words)[1]


def test_a_model_predicts_no_wait_beyond_the_futures() -> None:
    futures = StartPrediction(0, np.full(64, 60), 9000)
    queue_s = tuple(60.0 for _ in LEVELS)
    reported = ReportedPrediction(MISSING, "train", 1, 3600, "main", futures, queue_s, MISSING, "", (), 3, 0)
    made = blended(reported, [4000.0 * k for k in range(len(LEVELS))], QuantileBlend(LEVELS, 2), 0)
    assert made.parts_s == (queue_s, (0.0, 4000.0, 8000.0, 9000.0, 9000.0, 9000.0, 9000.0))
    assert (made.quantiles_s, made.blended) == (queue_s, 0)


@pytest.mark.parametrize("words", [["--mine"], ["--job", "1"], ["--compare", "-N", "1"], ["--calibration"]])
def test_it_predicts_for_one_job_to_be_submitted(type_: Type, words: list[str]) -> None:
    assert "--waits predicts one job to submit" in type_("predict", "--waits", "x", *words, status=2)[1]


def test_a_model_that_is_not_there_is_named(type_: Type) -> None:
    printed = type_("predict", "--waits", "absent.model", "-N", "1", "-t", "1:00:00", status=1)[1]
    assert "absent.model: no such file; 'mirage train predict' makes one" in printed
