"""Types of option values, checked when the command line is parsed, before any work."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mirage.duration import UNLIMITED_S, format_duration, parse_duration_s
from mirage.errors import ConfigurationError, shown

if TYPE_CHECKING:
    from mirage.provision.evaluation.site_choice import LinkRequest


def refuse_underscores(command: click.Command) -> None:
    """Makes a command refuse numbers with an underscore, which Python's ``int`` accepts."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
            converted = partial(_without_underscore, parameter, type(parameter).type_cast_value)
            setattr(parameter, "type_cast_value", converted)  # noqa: B010  a method of one parameter


def _without_underscore(parameter: click.Parameter, convert: Any, ctx: click.Context, value: Any) -> Any:
    for text in value if isinstance(value, list | tuple) else (value,):
        if isinstance(text, str) and "_" in text:
            is_task = parameter.name == "job" and text[:1].isdecimal()
            task_of = f"names a task of an array; give {text.partition('_')[0]}, the number of the array"
            why = task_of if is_task else "is not a valid number"
            raise click.BadParameter(f"{shown(text)} {why}.", ctx, parameter)
    return convert(parameter, ctx, value)


def _plain_float(text: str) -> float:
    if "_" in text:
        raise ValueError
    return float(text)


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A duration in Slurm's form or with a unit, converted to seconds.

    Args:
        least_s: The shortest accepted duration.
        most_s: The longest one.
        limited: Whether UNLIMITED is refused.
        with_unit: Whether a bare number but 0 is refused; Slurm counts minutes, and here seconds are usual.
    """

    name = "duration"

    def __init__(
        self, least_s: int = 0, most_s: int = UNLIMITED_S, *, limited: bool = False, with_unit: bool = False
    ) -> None:
        self.least_s, self.most_s, self.limited, self.with_unit = least_s, most_s, limited, with_unit

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Seconds of the text."""
        if isinstance(value, int):
            return value
        if value.strip() == "-1":  # Slurm's word for no limit, and here a slip
            self.fail("'-1' is negative; give a time from 0 on", param, ctx)
        try:
            seconds = parse_duration_s(value)
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)
        if seconds < self.least_s:
            self.fail(f"{shown(value)} is too short; at least {self.least_s} s", param, ctx)
        if self.with_unit and seconds and value.strip().isdecimal():
            self.fail(f"{shown(value)} has no unit; write {value.strip()}s or {value.strip()}m", param, ctx)
        if self.limited and seconds >= UNLIMITED_S:
            self.fail(f"{shown(value)} never ends; give a time that does", param, ctx)
        if seconds > self.most_s:
            self.fail(f"{shown(value)} is too long; at most {format_duration(self.most_s)}", param, ctx)
        return seconds


class IntegerRange(click.IntRange):
    """A whole number of a range.

    click's own message calls a text that is no number "not a valid integer range".
    """

    name = "integer"


class Number(click.FloatRange):
    """A finite number of a range; click itself accepts NaN in any range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the number of a text."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{shown(value)} is no finite number", param, ctx)
        return number


class Count(IntegerRange):
    """A whole number of a range that is refused above it; the help names the least one only.

    Args:
        least: The least number.
        most: The largest number: far beyond any use, and small enough for arrays, stores and Slurm.
    """

    def __init__(self, least: int = 1, most: int = 1_000_000) -> None:
        super().__init__(min=least)
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number of a text."""
        number = int(super().convert(value, param, ctx))
        if number > self.most:
            self.fail(f"{shown(number)} is too large; at most {self.most:,}", param, ctx)
        return number


class WorkloadWindow(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A window of time since the start of a workload, such as ``3d-13d``, in seconds."""

    name = "window"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """Begin and end of the window of a text."""
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])-(\d+(?:\.\d+)?)([smhd])", value.strip())
        if found is None:
            self.fail(f"{shown(value)} is no window; give two times with units, such as 3d-13d or 0h-36h", param, ctx)
        unit_s = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
        begin_s, end_s = float(found[1]) * unit_s[found[2]], float(found[3]) * unit_s[found[4]]
        if begin_s >= end_s:
            self.fail(f"{shown(value)} ends before it begins", param, ctx)
        return begin_s, end_s


class Date(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """An ISO-8601 date or time as seconds since 1970; UTC if it names no zone."""

    name = "date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Seconds of the text."""
        if isinstance(value, int):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{shown(value)} is no date; write it as 2024-01-01 or 2024-01-01T12:00", param, ctx)
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


class Words(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """A comma-separated list of words, at least one."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """Returns the words, each converted by ``word``."""
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in value.split(",") if word.strip()]
        if not words:
            self.fail("the list is empty; name at least one", param, ctx)
        return tuple(self.word(word, param, ctx) for word in words)

    def word(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Converts one word of the list."""
        return text


class LinkRequests(click.ParamType):  # type: ignore[type-arg]  # generic in newer clicks only
    """Links that a policy is chosen for: ``8,48h`` or ``8,2-00:00:00,3,bank``."""

    name = "link"
    form = "NODES,LIMIT[,RATIO][,bank]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> LinkRequest:
        """Returns the request in a text."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        from mirage.policy.cost import Cost
        from mirage.provision.evaluation.site_choice import LinkRequest

        nodes, *words = [word.strip() for word in value.split(",")]
        bank_age = words[-1:] == ["bank"]
        limit, *ratio = (words[:-1] if bank_age else words) or [""]
        if not limit:
            self.fail(f"{shown(value)} is not {self.form}, such as 8,48h,3", param, ctx)
        count = CountList().word(nodes, param, ctx)
        limit_s = Duration(least_s=1, limited=True).convert(limit, param, ctx)
        if len(ratio) > 1:
            self.fail(f"{shown(value)} is not {self.form}, such as 8,48h,3", param, ctx)
        try:
            number = _plain_float(ratio[0]) if ratio else 1.0
            cost = Cost(1.0, 0.0) if number == math.inf else Cost(number, 1.0)
        except (ValueError, ConfigurationError):
            self.fail(f"{shown(ratio[0])} is no ratio of costs; write a number, such as 3", param, ctx)
        return LinkRequest(count, limit_s, cost, bank_age)


class LinkUser(click.Choice):  # type: ignore[type-arg]  # generic in newer clicks only
    """Owner of links: one of some words, or ``user:NAME``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the owner in a text."""
        if isinstance(value, str) and value.startswith("user:") and value != "user:":
            return value
        if value not in self.choices:
            words = ", ".join(map(str, self.choices))
            self.fail(f"{shown(value)} is no owner of links; give {words}, or user:NAME", param, ctx)
        return str(value)

    def get_metavar(self, *_: Any, **__: Any) -> str:
        """Returns the words and the form of a name, for the help."""
        return f"[{'|'.join(map(str, self.choices))}|user:NAME]"


class CountList(Words):
    """A list of positive whole numbers."""

    def word(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """One number of the list."""
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0):
            self.fail(f"{shown(text)} is no positive whole number", param, ctx)
        return int(text)


class Numbers(Words):
    """A list of different numbers."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Returns the numbers."""
        numbers = super().convert(value, param, ctx)
        if twice := [number for number in numbers if numbers.count(number) > 1]:
            self.fail(f"{twice[0]:g} is named twice; name each once", param, ctx)
        return numbers

    def word(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """One number of the list."""
        try:
            return _plain_float(text)
        except ValueError:
            self.fail(f"{shown(text)} is no number; write a list of numbers, such as 1,2,5,10", param, ctx)


DURATION, POSITIVE_DURATION = Duration(), Duration(least_s=1)
LIMITED_DURATION = Duration(least_s=1, limited=True)
DURATION_WITH_UNIT = Duration(least_s=1, limited=True, with_unit=True)
DATE, WORDS, COUNTS, NUMBERS, LINK_REQUEST = Date(), Words(), CountList(), Numbers(), LinkRequests()
WINDOW = WorkloadWindow()
COUNT, COUNT_OR_NONE = Count(), Count(0)
SEED = Count(0, 2**53)  # mirage.dag.setting.LARGEST_SEED, which loads numpy
