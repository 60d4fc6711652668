"""The study that options of ``mirage evaluate`` describe."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
import pytest

from mirage.cli.options import CostOptions
from mirage.cli.study import StudyOptions, report_training_windows
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.predict.model_file import TrainedOn
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.link_size import LinkSize
from mirage.trace.table import JobTable

STUDY = StudyOptions(
    link_nodes=(1,), link_limit=2 * DAY_S, policies=("reactive",), start=None, windows=None, every=4 * HOUR_S,
    step=None, protocol="warm", discipline=None, cost_ratios=None, seed=0, resume=None,
    link_user="newcomer", hand_over=1,
)  # fmt: skip
NO_COST = CostOptions(None, None)


@pytest.mark.parametrize(
    ("given", "queue"),
    [
        ({}, "slurm"),
        ({"protocol": "published"}, "mirage-2023"),
        ({"discipline": "easy"}, "easy"),
        ({"protocol": "published", "discipline": "easy"}, "easy"),
    ],
)
def test_the_discipline_is_that_of_the_protocol_unless_one_is_named(given: dict[str, Any], queue: str) -> None:
    assert replace(STUDY, **given).queue == queue


def test_there_is_a_link_of_each_size() -> None:
    study = replace(STUDY, link_nodes=(1, 8), link_limit=HOUR_S)
    assert study.links() == [LinkSize(1, HOUR_S), LinkSize(8, HOUR_S)]


@pytest.mark.parametrize(
    ("ratios", "costs", "expected"),
    [
        (None, NO_COST, [Cost(1, 1)]),
        (None, CostOptions(3, None), [Cost(3, 1)]),
        ((1.0, 5.0), NO_COST, [Cost(1, 1), Cost(5, 1)]),
    ],
)
def test_the_costs_to_judge_by(ratios: tuple[float, ...] | None, costs: CostOptions, expected: list[Cost]) -> None:
    assert replace(STUDY, cost_ratios=ratios).costs(costs) == expected


@pytest.mark.parametrize("costs", [CostOptions(3, None), CostOptions(None, 0.0)])
def test_ratios_and_a_cost_exclude_each_other(costs: CostOptions) -> None:
    with pytest.raises(click.UsageError) as refused:
        replace(STUDY, cost_ratios=(1.0,)).costs(costs)
    assert refused.value.message == "--cost-ratios replaces --interruption-cost and --overlap-cost; give one of them"


def submitted(*days: float) -> JobTable:
    return JobTable.build(range(len(days)), submit_s=[round(day * DAY_S) for day in days])


@pytest.mark.parametrize(
    ("days", "given", "plan"),
    [
        # from the midnight before two thirds on; two days lead in, and a link of two days ends within the trace
        ((0.5, 30.5), {}, EvaluationProtocol("warm", 20 * DAY_S, 40)),
        ((0.5, 30.5), {"every": DAY_S}, EvaluationProtocol("warm", 20 * DAY_S, 7, every_s=DAY_S)),
        ((0.5, 30.5), {"every": DAY_S, "link_limit": 6 * HOUR_S}, EvaluationProtocol("warm", 20 * DAY_S, 9, DAY_S)),
        ((0, 300), {}, EvaluationProtocol("warm", 200 * DAY_S, 156)),
        ((0, 30), {"windows": 3, "start": 7}, EvaluationProtocol("warm", 7, 3)),
        ((0, 30), {"windows": 400, "step": 60}, EvaluationProtocol("warm", 20 * DAY_S, 400, step_s=60)),
        ((0, 1), {}, EvaluationProtocol("warm", 0, 1)),
        ((), {}, EvaluationProtocol("warm", 0, 1)),
        ((-1 / DAY_S, 3, 9), {"windows": 2}, EvaluationProtocol("warm", 7 * DAY_S, 2)),
        (
            (0, 30),
            {"protocol": "published", "windows": 5},
            EvaluationProtocol(
                "published", 20 * DAY_S, 5, warm_up_s=2 * DAY_S, arrivals_s=5 * DAY_S, step_s=10 * MINUTE_S
            ),
        ),
    ],
)
def test_windows_fit_after_two_thirds_of_the_trace(
    days: tuple[float, ...], given: dict[str, Any], plan: EvaluationProtocol
) -> None:
    assert replace(STUDY, **given).plan(submitted(*days)) == plan


def test_windows_in_a_gap_of_the_trace_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong date is enough: 2,000 days lie between the first job and the others."""
    table = submitted(0, 2000, 2001, 2007)
    replace(STUDY, windows=1).plan(table)
    assert (
        "the windows begin on 1973-08-31, and the trace has no submission until 1975-06-24" in capsys.readouterr().err
    )
    replace(STUDY, windows=1, start=1999 * DAY_S).plan(table)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({"windows": 40}, ""),
        ({"windows": 53}, ""),  # check_windows refuses it
        (
            {"windows": 43},
            "in 3 of 43 windows, a link of 2-00:00:00 may end after the last job of the trace (1970-01-31T",
        ),
        ({"link_limit": 10 * DAY_S}, "in the window, a link of 10-00:00:00 may end after"),
        ({"link_limit": 28 * DAY_S}, "only empties; give an earlier --start, a shorter --link-limit, or"),
        ({"link_limit": 29 * DAY_S}, "only empties; give a shorter --link-limit, or a longer trace"),
    ],
)
def test_windows_with_a_link_that_ends_after_the_trace_are_a_warning(
    given: dict[str, Any], warned: str, capsys: pytest.CaptureFixture[str]
) -> None:
    replace(STUDY, **given).plan(submitted(*range(20), *(day / 2 for day in range(40, 62)), 30.5))
    printed = capsys.readouterr().err
    assert warned in printed
    assert bool(warned) is bool(printed)


def test_windows_in_the_training_data_of_a_model_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = {"./a.model": TrainedOn("sacct.txt", 5 * DAY_S, 9 * DAY_S, 70), "./old.model": TrainedOn("x", 0, DAY_S, 7)}
    monkeypatch.setattr("mirage.learn.policies.policy_file.training_data", {**data, "./tree.txt": None}.get)
    begins_s = [day * DAY_S for day in (4, 5, 8, 9)]
    found = report_training_windows(["reactive", "holds", *data, "./tree.txt", "holds:by=./a.model"], begins_s)
    assert found == [
        {"policy": policy, "windows": 2, "trace": "sacct.txt", "until_s": 9 * DAY_S}
        for policy in ("./a.model", "holds:by=./a.model")
    ]
    words = (
        "./a.model was trained on jobs of sacct.txt until 1970-01-10, so it may know the outcome of 2 of the 4 windows"
    )
    assert words in capsys.readouterr().err


def test_a_cost_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="got interruption=inf, overlap=1"):
        replace(STUDY, cost_ratios=(float("inf"),)).costs(NO_COST)
