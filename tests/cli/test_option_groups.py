"""Options that commands share, read into one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import pytest
from click.testing import CliRunner

from mirage.cli.options import (
    CostOptions,
    TraceOptions,
    cost_options,
    examples,
    option_group,
    seed_option,
    trace_options,
    workers_option,
)
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost


def collected(decorate: Any, *words: str) -> dict[str, Any]:
    """What a command gets that is decorated so."""
    found: dict[str, Any] = {}
    command = click.command()(decorate(lambda **values: found.update(values)))
    done = CliRunner().invoke(command, list(words), standalone_mode=False)
    if done.exception:
        raise done.exception
    return found


@dataclass(frozen=True)
class Size:
    wide: int | None
    high: int


SIZE = option_group("size", Size, click.option("--wide", type=int), click.option("--high", type=int, default=3))


def test_options_come_as_one_object_next_to_the_command_s_own() -> None:
    def both(command: Any) -> Any:
        return click.option("--name", default="box")(SIZE(command))

    assert collected(both) == {"size": Size(None, 3), "name": "box"}
    assert collected(both, "--high", "5", "--wide", "2", "--name", "lid") == {"size": Size(2, 5), "name": "lid"}


def test_the_help_shows_options_in_the_order_they_are_given() -> None:
    command = click.command()(SIZE(lambda size: None))
    assert [parameter.name for parameter in command.params] == ["wide", "high"]


@pytest.mark.parametrize(
    ("words", "reading"),
    [
        ((), TraceOptions(None, None, None, "UTC", False)),
        (
            ("--format", "sacct", "--fields", "JobID,State", "--delimiter", ";", "--timezone", "Asia/Tokyo"),
            TraceOptions("sacct", "JobID,State", ";", "Asia/Tokyo", False),
        ),
        (("--skip-bad-lines",), TraceOptions(None, None, None, "UTC", True)),
    ],
)
def test_how_a_trace_is_to_be_read(words: tuple[str, ...], reading: TraceOptions) -> None:
    assert collected(trace_options, *words) == {"reading": reading}


@pytest.mark.parametrize(
    ("defaults", "words", "given", "cost"),
    [
        ((), (), False, Cost(1, 1)),
        ((), ("--interruption-cost", "3"), True, Cost(3, 1)),
        ((), ("--overlap-cost", "0"), True, Cost(1, 0)),
        ((3.0, 2.0), (), True, Cost(3, 2)),
        ((3.0, 2.0), ("--interruption-cost", "0"), True, Cost(0, 2)),
    ],
)
def test_costs(defaults: tuple[float, ...], words: tuple[str, ...], given: bool, cost: Cost) -> None:
    costs = collected(cost_options(*defaults), *words)["costs"]
    assert (costs.given, costs.cost()) == (given, cost)


def test_costs_that_cannot_be_are_refused_when_they_are_used() -> None:
    with pytest.raises(ConfigurationError, match="got interruption=-1, overlap=1"):
        CostOptions(-1, None).cost()


@pytest.mark.parametrize(
    ("defaults", "shown"),
    [((), "Cost of an hour without the service.  [default: 1]"), ((3.0, 1.0), "[default: 3.0]")],
)
def test_the_help_reports_every_default_once(defaults: tuple[float, ...], shown: str) -> None:
    command = click.command()(cost_options(*defaults)(lambda costs: None))
    (line,) = [line for line in CliRunner().invoke(command, ["--help"]).output.splitlines() if "--interr" in line]
    assert line.endswith(shown)
    assert line.count("default") == 1


@pytest.mark.parametrize(
    ("option", "words", "message"),
    [
        (seed_option, ("--seed", "-1"), "-1 is not in the range x>=0."),
        (workers_option, ("--workers", "0"), "0 is not in the range x>=1."),
        (trace_options, ("--timezone",), "Option '--timezone' requires an argument."),
    ],
)
def test_a_value_out_of_range_is_refused(option: Any, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        collected(option, *words)
    assert refused.value.message == message


def test_examples_stand_a_line_each() -> None:
    assert examples("mirage a", "mirage b") == "\b\nExamples:\n  mirage a\n  mirage b"
