"""Schedulers on a command line: names, parameters and values."""

from __future__ import annotations

from typing import Any

import pytest

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.schedulers.gavel import Gavel
from mirage.schedule.schedulers.gpu_scheduler_registry import SCHEDULERS, GpuSchedulerSpec


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("3.5", 3.5),
        ("1e3", 1000.0),
        ("yes", True),
        ("True", True),
        ("no", False),
        ("FALSE", False),
        ("None", None),
        ("max-min", "max-min"),
        ("a=b", "a=b"),
    ],
)
def test_a_value_is_a_number_a_truth_or_a_word(text: str, value: Any) -> None:
    (parameter,) = SchedulerText.of(f"gavel:objective={text}").parameters
    assert parameter == ("objective", value)
    assert type(parameter[1]) is type(value)


def test_parameters_come_in_the_order_of_the_text() -> None:
    found = SchedulerText.of("sia:round-s=30:most_gpus=8:preempt=kill")
    assert (found.text, found.name) == ("sia:round-s=30:most_gpus=8:preempt=kill", "sia")
    assert found.parameters == (("round_s", 30), ("most_gpus", 8), ("preempt", "kill"))
    assert found.spec is SCHEDULERS["sia"]
    assert SchedulerText.of("fifo") == SchedulerText("fifo", "fifo", ())


def test_one_value_of_a_parameter_with_several_is_a_group_too() -> None:
    assert SchedulerText.of("tiresias:thresholds_gpu_s=60").parameters == (("thresholds_gpu_s", (60,)),)
    assert SchedulerText.of("gittins:service_gpu_s=1/2/3").parameters == (("service_gpu_s", (1, 2, 3)),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tiresias:preempt=save:preempt=kill",
            "scheduler 'tiresias:preempt=save:preempt=kill' has preempt 2 times; give it once",
        ),
        ("fifo:depth=3", "scheduler 'fifo' has no parameter 'depth'; it has none"),
        ("tiresias:depth=3", "scheduler 'tiresias' has no parameter 'depth'; it has thresholds_gpu_s, preempt"),
        ("gavel:60", "scheduler 'gavel:60': '60' is not KEY=VALUE; write NAME:KEY=VALUE"),
        ("gavel:=60", "scheduler 'gavel:=60': '=60' is not KEY=VALUE; write NAME:KEY=VALUE"),
        ("gavel:round_s=", "scheduler 'gavel:round_s=': 'round_s=' is not KEY=VALUE; write NAME:KEY=VALUE"),
        ("gavel:", "scheduler 'gavel:': '' is not KEY=VALUE; write NAME:KEY=VALUE"),
        ("gittins:levels=1/2", "scheduler 'gittins:levels=1/2': 1/2 are several values; give one"),
    ],
)
def test_a_text_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SchedulerText.of(text)
    assert str(refused.value) == message


def test_a_name_must_be_known_before_its_parameters_are_read() -> None:
    with pytest.raises(UnknownName, match="unknown GPU scheduler 'fife'"):
        SchedulerText.of("fife:depth=3")


def test_defaults_of_the_caller_give_way_to_the_text_and_must_be_parameters() -> None:
    defaults = {"preempt": "kill", "round_s": 60.0, "depth": 3}
    made = SchedulerText.of("gavel:round_s=120").make(defaults)
    assert isinstance(made, Gavel)
    assert (made.round_s, made.preempt, made.objective) == (120, "kill", "max-sum")
    plain = SchedulerText.of("gavel").make()
    assert isinstance(plain, Gavel)
    assert (plain.round_s, plain.preempt) == (360, "save")


def test_a_parameter_takes_several_values_if_its_default_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCHEDULERS, "mine", GpuSchedulerSpec("a:b", "", {"one": 1, "several": ()}))
    found = SchedulerText.of("mine:one=2:several=3/4")
    assert found.parameters == (("one", 2), ("several", (3, 4)))
