"""Values of options: what is taken, and the messages about the rest."""

from __future__ import annotations

from typing import Any

import click
import pytest

from mirage.cli import main
from mirage.cli.values import (
    COUNT,
    COUNTS,
    DATE,
    DURATION,
    DURATION_WITH_UNIT,
    LIMITED_DURATION,
    NUMBERS,
    POSITIVE_DURATION,
    SEED,
    WORDS,
    LinkRequests,
    LinkUser,
    Number,
)
from mirage.dag.setting import LARGEST_SEED
from mirage.duration import UNLIMITED_S

pytestmark = pytest.mark.usefixtures("newfoundland")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (DURATION, "0", 0),
        (DURATION, "30", 1800),
        (DURATION, "UNLIMITED", UNLIMITED_S),
        (POSITIVE_DURATION, "1s", 1),
        (POSITIVE_DURATION, "infinite", UNLIMITED_S),
        (LIMITED_DURATION, "2-00:00:00", 172_800),
        (LIMITED_DURATION, 5, 5),
        (DATE, "1970-01-02", 86_400),
        (DATE, "1970-01-02T01:00", 90_000),
        (DATE, "1970-01-02T01:00:00+01:00", 86_400),
        (DATE, "1969-12-31", -86_400),
        (DATE, 12, 12),
        (WORDS, "a, b,,c ,", ("a", "b", "c")),
        (WORDS, ("a,b",), ("a,b",)),
        (COUNTS, "1, 20", (1, 20)),
        (COUNTS, "999999999", (999_999_999,)),
        (COUNT, "1000000", 1_000_000),
        (SEED, "9007199254740992", LARGEST_SEED),
        (NUMBERS, "1,2.5,-3e1", (1.0, 2.5, -30.0)),
        (Number(0.25), "0.25", 0.25),
    ],
)
def test_values_are_read(kind: click.ParamType, text: Any, value: Any) -> None:  # type: ignore[type-arg]
    assert kind.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (COUNT, "0", "0 is not in the range x>=1."),
        (COUNT, "1000001", "1000001 is too large; at most 1,000,000"),
        (SEED, "9007199254740993", f"9007199254740993 is too large; at most {LARGEST_SEED:,}"),
        (Number(0, 1), "nan", "'nan' is no finite number"),
        (Number(min=0), "inf", "'inf' is no finite number"),
        (Number(min=0), "-1", "-1.0 is not in the range x>=0."),
        (POSITIVE_DURATION, "0", "'0' is too short; at least 1 s"),
        (DURATION_WITH_UNIT, "0", "'0' is too short; at least 1 s"),
        (DURATION_WITH_UNIT, "5", "'5' has no unit; write 5s or 5m"),
        (LIMITED_DURATION, "UNLIMITED", "'UNLIMITED' never ends; give a time that does"),
        (LIMITED_DURATION, "99999999d", "'99999999d' never ends; give a time that does"),
        (
            DURATION,
            "-5",
            "'-5' is no duration; write it as Slurm does (2-00:00:00, 48:00:00, 30:00) or with a unit (90m, 4h, 2d)",
        ),
        (DATE, "tomorrow", "'tomorrow' is no date; write it as 2024-01-01 or 2024-01-01T12:00"),
        (DATE, "2024-02-30", "'2024-02-30' is no date; write it as 2024-01-01 or 2024-01-01T12:00"),
        (WORDS, ", ,", "the list is empty; name at least one"),
        (COUNT, "two", "'two' is not a valid integer."),
        (Number(min=0), "much", "'much' is not a valid number."),
        (DURATION, "-1", "'-1' is negative; give a time from 0 on"),
        (COUNTS, "1,0", "'0' is no positive whole number"),
        (COUNTS, "1.5", "'1.5' is no positive whole number"),
        (COUNTS, "²", "'²' is no positive whole number"),
        (COUNTS, "٣", "'٣' is no positive whole number"),
        (COUNTS, "1000000000", "'1000000000' is no positive whole number"),
        (NUMBERS, "1,2_0", "'2_0' is no number; write a list of numbers, such as 1,2,5,10"),
        (NUMBERS, "1,many", "'many' is no number; write a list of numbers, such as 1,2,5,10"),
        (NUMBERS, "x" * 200, f"'{'x' * 77}…' is no number; write a list of numbers, such as 1,2,5,10"),
    ],
)
def test_what_cannot_be_read_is_quoted_with_what_can(kind: click.ParamType, text: str, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(click.BadParameter) as refused:
        kind.convert(text, None, None)
    assert refused.value.message == message


@pytest.mark.parametrize(
    "words",
    [
        ["train", "predict", "trace", "-o", "model", "--hold-out", "nan"],
        ["train", "predict", "trace", "-o", "model", "--refit-days", "nan"],
        ["train", "decima", "--minutes", "nan"],
        ["schedule", "run", "--later", "nan"],
        ["schedule", "run", "--cost-spread", "nan"],
    ],
)
def test_no_range_of_the_command_line_holds_nan(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert f"Invalid value for '{words[-2]}': 'nan' is no finite number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("predict --job 4_0", "'4_0' names a task of an array; give 4, the number of the array"),
        ("simulate x.csv --nodes 1_0", "'1_0' is not a valid number"),
        ("evaluate x.csv --nodes 7_6", "'7_6' is not a valid number"),
        ("trace generate --jobs 1_0 -o x", "'1_0' is not a valid number"),
        ("schedule run --later 0_1", "'0_1' is not a valid number"),
    ],
)
def test_no_number_of_the_command_line_holds_an_underscore(
    words: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["8", "8,bank", "8,", "8,1h,3,4"])
def test_a_link_that_is_not_in_its_form_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=rf"'{text}' is not NODES,LIMIT\[,RATIO\]\[,bank\], such as 8,48h,3"):
        LinkRequests().convert(text, None, None)


@pytest.mark.parametrize(
    "words",
    [
        "simulate x.csv --nodes N", "simulate x.csv --processors N", "simulate x.csv --nodes 1 --gpus-per-node N",
        "evaluate x.csv --nodes N", "explain reactive x.csv --nodes N -o t", "train predict x.csv --seed N -o m",
        "schedule run x.csv --scheduler fifo --seed N", "chain explain c --last N", "submit --links N x.sh",
        "train forest x.csv --nodes 1 --trees N -o m",
    ],
)  # fmt: skip
def test_a_number_that_no_array_holds_is_a_wrong_usage(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.replace(" N", f" {10**20}").split()) == 2
    assert "100000000000000000000 is too large; at most " in capsys.readouterr().err


def test_an_owner_of_links_without_a_name_is_refused_with_the_form() -> None:
    owner = LinkUser(["newcomer", "heavy"])
    assert owner.convert("user:eva", None, None) == "user:eva"
    with pytest.raises(click.BadParameter, match="'user:' is no owner of links; give newcomer, heavy, or user:NAME"):
        owner.convert("user:", None, None)
