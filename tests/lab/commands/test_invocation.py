"""Command lines, errors in Slurm's own words, and what all commands have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING
from mirage.lab.commands.invocation import CommandOutput, midnight_s, read_words
from mirage.lab.commands.output_columns import OutputFormat, elapsed
from mirage.lab.commands.query_commands import cell, read_fields, read_format
from mirage.lab.commands.server import COMMANDS
from tests.support.small_slurm import BEGIN_S, FOUR_JOBS, command, small_slurm

TRY = '\nTry "{} --help" for more information\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("squeue -x", "squeue: invalid option -- 'x'"),
        ("squeue --nope", "squeue: unrecognized option '--nope'"),
        ("squeue -o", "squeue: option requires an argument -- 'o'"),
        ("squeue --format", "squeue: option '--format' requires an argument"),
        ("squeue --noheader=1", "squeue: option '--noheader' doesn't allow an argument"),
        ("squeue --no", "squeue: option '--no' is ambiguous"),
        ("squeue -j 3 --partition", "squeue: option '--partition' requires an argument"),
        ("sacct -z", "sacct: invalid option -- 'z'"),
        ("sinfo --zz=3", "sinfo: unrecognized option '--zz'"),
        ("sprio -p", "sprio: option requires an argument -- 'p'"),
        ("scancel 1 --sig", "scancel: option '--signal' requires an argument"),
        ("scontrol show job --x", "scontrol: unrecognized option '--x'"),
    ],
)
def test_options_that_a_command_does_not_have(folder: Path, line: str, words: str) -> None:
    slurm = small_slurm(**FOUR_JOBS)
    assert command(slurm, folder, line) == CommandOutput("", words + TRY.format(line.split()[0]), 1)


@pytest.mark.parametrize(
    ("words", "options", "rest"),
    [
        (["-hj3", "5", "--user", "ada"], {"h": "", "j": "3", "user": "ada"}, ["5"]),
        (["5", "-j", "3", "6"], {"j": "3"}, ["5", "6"]),
        (["-j", "3", "-j4"], {"j": "4"}, []),
        (["--us=ada", "--user="], {"user": ""}, []),
        (["-h", "--", "-j"], {"h": ""}, ["-j"]),
        (["-", "-h"], {"h": ""}, ["-"]),
        ([], {}, []),
    ],
)
def test_options_and_the_other_words(words: list[str], options: dict[str, str], rest: list[str]) -> None:
    assert read_words(words, "hj:", ["user=", "noheader"]) == (options, rest)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_version_even_without_a_controller(folder: Path, name: str) -> None:
    slurm = small_slurm()
    slurm.unreachable = True
    for word in ("-V", "--version"):
        assert command(slurm, folder, f"{name} {word}") == CommandOutput("slurm-wlm 22.05.8\n")
    assert slurm.commands == 0


@pytest.mark.parametrize(
    ("line", "before"),
    [
        ("squeue", ""),
        ("sacct", ""),
        ("sinfo", ""),
        ("sprio", ""),
        ("scancel 3", ""),
        ("scontrol ping", ""),
        ("scontrol show config", ""),
        ("scontrol update jobid=3 comment=x", ""),
        ("sbatch job.sh", "sbatch: error: Batch job submission failed: "),
    ],
)
def test_no_answer(folder: Path, line: str, before: str) -> None:
    slurm = small_slurm(**FOUR_JOBS)
    slurm.unreachable = True
    silence = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
    assert command(slurm, folder, line) == CommandOutput("", before + silence, 1)


@pytest.mark.usefixtures("newfoundland")
def test_midnight_and_times_of_this_machine_s_zone() -> None:
    assert midnight_s(BEGIN_S) == BEGIN_S - 6 * 3600 - 1800
    assert midnight_s(midnight_s(BEGIN_S)) == midnight_s(BEGIN_S)
    assert midnight_s(midnight_s(BEGIN_S) - 1) == midnight_s(BEGIN_S) - 86_400
    assert OutputFormat(0, False).instant(BEGIN_S) == "2026-11-21T06:30:00"
    assert OutputFormat(0, True).instant(BEGIN_S) == "1795255200"
    assert (OutputFormat(0, True).instant(MISSING), OutputFormat(0, False).instant(MISSING, "Unknown")) == (
        "N/A",
        "Unknown",
    )


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0:00"), (0, "0:00"), (59, "0:59"), (60, "1:00"), (3599, "59:59"), (3600, "1:00:00"), (86_399, "23:59:59"),
        (86_400, "1-00:00:00"), (UNLIMITED_S - 1, "12725829-00:36:15"), (UNLIMITED_S, "UNLIMITED"),
    ],
)  # fmt: skip
def test_durations_as_squeue_prints_them(seconds: int, shown: str) -> None:
    assert elapsed(seconds) == shown


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("JobID", [("jobid", False, 20, "")]),
        ("jobid:", [("jobid", False, 0, "")]),
        ("jobid:7,state:.5,name:.", [("jobid", False, 7, ""), ("state", True, 5, ""), ("name", True, 0, "")]),
        ("jobarrayid:9|#", [("jobarrayid", False, 9, "|#")]),
        ("tres-alloc:\x1f", [("tres-alloc", False, 0, "\x1f")]),
    ],
)
def test_fields(text: str, parts: list[object]) -> None:
    assert read_fields(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [("", False, 0, "")]),
        ("%i", [("jobid", False, 0, ""), ("", False, 0, "")]),
        ("<%.7T>%", [("", False, 0, "<"), ("state", True, 7, ""), ("", False, 0, ">%")]),
        ("%5z%j", [("", False, 0, "%5z"), ("name", False, 0, ""), ("", False, 0, "")]),
    ],
)
def test_letters(text: str, parts: list[object]) -> None:
    assert read_format(text) == parts


def test_a_cell_is_cut_at_its_width_and_what_follows_is_not() -> None:
    assert cell(("name", False, 4, "|"), "ab") == "ab  |"
    assert cell(("name", True, 4, "|"), "ab") == "  ab|"
    assert cell(("name", True, 4, "||"), "abcdef") == "abcd||"
    assert cell(("name", True, 0, ""), "abcdef") == "abcdef"


@pytest.mark.parametrize("line", ["squeue -t nope", "sacct -s nope", "scancel -t nope"])
def test_the_command_that_was_typed_refuses_an_unknown_state(folder: Path, line: str) -> None:
    name = line.partition(" ")[0]
    assert command(small_slurm(**FOUR_JOBS), folder, line) == CommandOutput(
        "", f"{name}: error: Invalid job state specified: nope\n", 1
    )
