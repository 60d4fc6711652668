"""Messages quote what was wrong, and stay short."""

from urllib.error import URLError

import pytest

from mirage.duration import parse_duration_s
from mirage.errors import (
    LONGEST_LINE,
    LONGEST_SHOWN,
    ConfigurationError,
    LineError,
    SlurmRefused,
    UnknownName,
    first_of,
    quantity,
    reason,
    shown,
)
from mirage.slurm.survey import parse_version
from mirage.slurm_words.hostlist import expand_hosts

LONG = "x" * 10_000


def test_the_reason_of_an_undecodable_file_names_the_place():
    with pytest.raises(UnicodeDecodeError) as refused:
        b"caf\xe9".decode()
    assert reason(refused.value) == "it is not text in UTF-8: byte 4 is 0xe9"


def test_a_long_list_names_its_first_and_counts_the_others():
    assert first_of(["a", "b\x1b[2J", "c"]) == "a, b?[2J, c"
    assert first_of(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_short_value_is_quoted_whole():
    assert shown("a'b\n") == repr("a'b\n")
    assert shown(["a", 1]) == "['a', 1]"


def test_a_long_value_retains_its_beginning_and_its_closing_mark():
    assert len(shown(LONG)) == LONGEST_SHOWN
    assert shown(LONG).startswith("'xxx")
    assert shown(LONG).endswith("x…'")


@pytest.mark.parametrize(
    ("refused", "by"),
    [
        (lambda: UnknownName("policy", LONG, ["reactive"]), None),
        (lambda: LineError("not a number", f"field 3 is {LONG!r}", "expected a number"), None),
        (lambda: parse_duration_s(LONG), ConfigurationError),
        (lambda: parse_version(LONG), Exception),
        (lambda: expand_hosts(f"n[{LONG}]"), ValueError),
    ],
)
def test_no_message_grows_with_the_value(refused, by):
    if by is None:
        error = refused()
    else:
        with pytest.raises(by) as caught:
            refused()
        error = caught.value
    assert "xxxx" in str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("printed", "quoted"),
    [
        ("sbatch: error: first\n\n  sbatch: error: second\n", "sbatch: error: first; sbatch: error: second"),
        ("JOBID\tUSER \x1b[2J\x00\n", "JOBID USER ?[2J?"),
        ("x|y|z\n" * 1_000_000, ("x|y|z; " * 1000)[: LONGEST_LINE - 1] + "…"),
    ],
)
def test_the_answer_of_slurm_is_quoted_in_one_printable_line(printed, quoted):
    error = SlurmRefused("squeue failed with status 1", printed)
    assert str(error) == f"squeue failed with status 1: {quoted}"
    assert error.stderr == printed.strip()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("sizes"), "it has no 'sizes'"),
        (IsADirectoryError(21, "Is a directory", "views"), "Is a directory"),
        (URLError(ConnectionRefusedError(111, "Connection refused")), "Connection refused"),
        (URLError("no host given"), "<urlopen error no host given>"),
        (OSError("cut short"), "cut short"),
        (ValueError(), "ValueError()"),
    ],
)
def test_the_reason_of_an_error_is_given_without_its_number_and_class(error, words):
    assert reason(error) == words


def test_an_empty_registry_is_reported():
    assert str(UnknownName("chain", "x", [])) == "unknown chain 'x'. There is no chain yet."


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs"), (2_000, "2,000 GPUs"), (-1, "-1 GPUs")]
)
def test_a_number_has_its_noun_in_the_right_form(number, text):
    assert quantity(number, "GPU") == text


def test_a_name_in_capitals_gets_the_suggestion_of_its_small_letters():
    assert "Did you mean 'easy'?" in str(UnknownName("queue discipline", "EASY", ["easy", "fcfs"]))
