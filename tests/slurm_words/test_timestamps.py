from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import ConfigurationError, LineError
from mirage.job_state import MISSING
from mirage.slurm_words.timestamps import LocalClock, instant_s, next_instant_s


def test_known_instants():
    assert LocalClock().seconds("2023-03-09T12:48:05") == 1_678_366_085
    assert LocalClock("America/Chicago").seconds("2023-03-09T12:48:05") == 1_678_366_085 + 6 * 3600
    assert LocalClock("America/Chicago").seconds("2023-03-09T12:48:05+00:00") == 1_678_366_085
    assert LocalClock().seconds("1678366085") == 1_678_366_085


@pytest.mark.parametrize("text", ["Unknown", "None", "", "N/A"])
def test_what_never_happened_is_missing(text):
    assert LocalClock().seconds(text) == MISSING


@pytest.mark.parametrize("text", ["yesterday", "2023-13-01T00:00:00", "2023-03-09T12:48:61", "2023-03-09T12:48:²0"])
def test_no_time(text):
    clock = LocalClock()
    clock.seconds("2023-03-09T12:48:05")  # the minute is known from here on
    with pytest.raises(LineError, match="not a time"):
        clock.seconds(text)


def test_an_unknown_zone_names_itself():
    with pytest.raises(ConfigurationError, match="Texas/Austin"):
        LocalClock("Texas/Austin")
    with pytest.raises(ConfigurationError, match="'europe/berlin'; use a name such as Europe/Berlin"):
        LocalClock("europe/berlin")
    for abbreviation in ("CST", "JST", "UTC+2"):
        with pytest.raises(ConfigurationError, match="use a name such as UTC, America/Chicago or Asia/Kolkata: abbrev"):
            LocalClock(abbreviation)


@given(st.lists(st.datetimes(datetime(1980, 1, 1), datetime(2060, 1, 1)), max_size=20))
def test_the_zone_is_applied_as_the_standard_library_does(moments):
    clock, zone = LocalClock("America/Chicago"), ZoneInfo("America/Chicago")
    for moment in (moment.replace(microsecond=0, fold=0) for moment in moments):
        assert clock.seconds(moment.isoformat()) == int(moment.replace(tzinfo=zone).timestamp())


@pytest.mark.parametrize("text", ["Unknown", "None", "", "N/A", "NULL", "invalid", " none ", "0"])
def test_every_word_for_never(text):
    assert LocalClock().seconds(text) == MISSING


def test_a_known_minute_gives_its_other_seconds():
    clock = LocalClock("America/Chicago")
    first = clock.seconds("2023-03-09T12:48:05")
    assert [clock.seconds(f"2023-03-09T12:48:{second:02d}") - first for second in (0, 5, 59)] == [-5, 0, 54]
    assert clock.seconds("2023-03-09T12:49:05") - first == 60


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-03-09 12:48:05", 1_678_366_085),
        (" 2023-03-09T12:48:05 ", 1_678_366_085),
        ("2023-03-09T12:48:05.900", 1_678_366_085),
        ("2023-03-09T12:48", 1_678_366_080),
        ("2023-03-09", 1_678_320_000),
        ("2023-03-09T12:48:05+01:00", 1_678_362_485),
        ("1969-12-31T23:59:50", -10),
    ],
)
def test_other_ways_to_write_a_time(text, seconds):
    clock = LocalClock()
    assert clock.seconds(text) == seconds
    assert clock.seconds("2023-03-09T12:48:07") == 1_678_366_087


def test_summer_time_ends_and_begins():
    clock = LocalClock("America/Chicago")
    assert clock.seconds("2023-11-05T01:30:00") == 1_699_165_800  # of two, the first
    assert clock.seconds("2023-03-12T02:30:00") == 1_678_609_800  # of none, by the offset before


def test_what_is_no_time_shows_how_to_write_one():
    with pytest.raises(LineError, match=r"not a time.*'soon'.*2023-03-09T12:48:05"):
        LocalClock().seconds("soon")
    with pytest.raises(ConfigurationError, match="UTC, America/Chicago"):
        LocalClock("../etc")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1795255200", 1795255200),
        ("0", MISSING),
        ("2026-11-21T10:00:00", 1795255200 + 3.5 * 3600),
        ("2026-11-21T10:00:00.5", 1795255200 + 3.5 * 3600),
        (" 2026-07-21T10:00:00\n", 1784628000 + 2.5 * 3600),
        ("2026-11-21", MISSING),
        ("2026-13-21T10:00:00", MISSING),
    ],
)
@pytest.mark.usefixtures("newfoundland")
def test_an_instant_in_this_machine_s_zone(text: str, expected: float) -> None:
    assert instant_s(text) == expected


NOW_S = 1_795_255_200
"""2026-11-21 06:30 in Newfoundland, where summer time ended on the first."""


@pytest.mark.parametrize(
    ("text", "later_s"),
    [
        ("noon", 5.5 * 3600),
        ("Midnight", 17.5 * 3600),
        ("fika", 8.5 * 3600),
        ("teatime", 9.5 * 3600),
        ("tomorrow", 17.5 * 3600),
        ("today", -6.5 * 3600),
        ("2026-11-22", 17.5 * 3600),
        ("2026-11-21T07:00", 1_800),
        ("2026-11-21 07:00:05", 1_805),
        ("2026-11-21T10:00:00Z", 0),
        ("2026-11-21t12:00:00+01:00", 3_600),
        ("2026-10-31", -(21 * 24 + 6.5 + 1) * 3600),
    ],
)
@pytest.mark.usefixtures("newfoundland")
def test_a_time_as_sbatch_s_begin_takes_it(text: str, later_s: float) -> None:
    assert next_instant_s(text, NOW_S) - NOW_S == later_s


@pytest.mark.parametrize(
    "text",
    ["", "soon", "elevenses", "20261121", "2026-13-01", "2026-W47", "11/22/26", "now+1year", "9999999", "-1", "12:60"],
)
def test_what_is_no_time_for_begin(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a time; write it as 2026-01-31T12:00"):
        next_instant_s(text, NOW_S)


@pytest.mark.real_slurm
@pytest.mark.slow
def test_the_real_sbatch_reads_the_same_times(private_cluster, tmp_path) -> None:
    cluster = private_cluster(nodes=1, gpus=0)
    texts = ["noon", "teatime", "fika", "midnight", "tomorrow", "2099-01-31", "2099-01-31T12:34",
             "2099-01-31T12:34:56", "23:59:58", "00:01", "now+3days", "now+2hours", "now+1week", "now+90"]  # fmt: skip
    for text in texts:
        job = cluster.run("sbatch", "--parsable", "-o", "/dev/null", f"--begin={text}", "--wrap=true").strip()
        shown = dict(
            word.split("=", 1) for word in cluster.run("scontrol", "show", "job", "-o", job).split() if "=" in word
        )
        now_s = instant_s(shown["SubmitTime"])
        assert abs(next_instant_s(text, now_s) - instant_s(shown["StartTime"])) <= 1, (text, shown["StartTime"])
        cluster.run("scancel", job)
