"""Cells as values: every kind of column, every unit, and what is no value."""

from __future__ import annotations

import pytest

from mirage.duration import DAY_S, HOUR_S, UNLIMITED_S
from mirage.errors import LineError
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.column_cells import Value, cell_reader

NOON_S = 1_619_870_400
"""2021-05-01T12:00:00Z."""


def read(target: str, unit: str, cell: str, zone: str = "UTC") -> tuple[Value, int]:
    """The value, and the number of times without a zone."""
    local_times: list[None] = []
    value = cell_reader(target, unit, LocalClock(zone), lambda: local_times.append(None))(cell)
    return value, len(local_times)


@pytest.mark.parametrize(
    ("unit", "cell", "expected", "local"),
    [
        ("", str(NOON_S), NOON_S, 0),
        ("", f" {NOON_S}.75 ", NOON_S, 0),
        ("", "1.6198704e9", NOON_S, 0),
        ("s", "0", 0, 0),
        ("ms", f"{NOON_S}500", NOON_S, 0),
        ("h", "1.5", 5400, 0),
        ("", "2021-05-01 12:00:00", NOON_S, 1),
        ("", "2021-05-01T12:00:00.250", NOON_S, 1),
        ("", "2021-05-01", NOON_S - 12 * HOUR_S, 1),
        ("", "2021-05-01T12:00:00Z", NOON_S, 0),
        ("", "2021-05-01 14:00:00+02:00", NOON_S, 0),
        ("", "2021-05-01T07:00:00-0500", NOON_S, 0),
        ("%d.%m.%Y %H:%M", "01.05.2021 12:00", NOON_S, 1),
        ("%d.%m.%Y %H:%M %z", "01.05.2021 14:00 +0200", NOON_S, 0),
        *(("", cell, MISSING, 0) for cell in ("", "N/A", "Unknown", "NaT", "NaN", "NA", "None", "-1", " ")),
        ("%d.%m.%Y", "", MISSING, 0),
    ],
)
def test_an_instant(unit: str, cell: str, expected: int, local: int) -> None:
    assert read("submit_s", unit, cell) == (expected, local)


def test_a_time_without_a_zone_is_read_in_the_one_that_is_named() -> None:
    for unit, cell in (("", "2021-05-01 07:00:00"), ("%d/%m/%Y %H", "01/05/2021 07")):
        assert read("start_s", unit, cell, "America/Chicago") == (NOON_S, 1)
    assert read("start_s", "", "2021-05-01T12:00:00Z", "America/Chicago") == (NOON_S, 0)


@pytest.mark.parametrize(
    ("unit", "cell", "expected"),
    [
        ("", "90", 90),
        ("", "66.0", 66),
        ("ms", "1500", 1),
        ("min", "90", 5400),
        ("h", "1.5", 5400),
        ("d", "2", 2 * DAY_S),
        ("", "1-12:00:00", 36 * HOUR_S),
        ("min", "01:30:00", 5400),
        ("", "3 days 00:00:00", 3 * DAY_S),
        ("", "1 day 02:00:00.500000", 26 * HOUR_S),
        ("slurm", "30", 1800),
        ("slurm", "1.9", 114),
        ("slurm", "2-12", 60 * HOUR_S),
        ("slurm", "48:00:00", 48 * HOUR_S),
        ("slurm", "UNLIMITED", UNLIMITED_S),
        ("", "UNLIMITED", UNLIMITED_S),
        *(("", cell, MISSING) for cell in ("", "N/A", "-1", "NaT")),
        ("slurm", "", MISSING),
    ],
)
def test_a_duration(unit: str, cell: str, expected: int) -> None:
    assert read("limit_s", unit, cell) == (expected, 0)


@pytest.mark.parametrize(
    ("target", "unit", "cell", "expected"),
    [
        ("nodes", "", "4", 4),
        ("nodes", "", "4.0", 4),
        ("cpus", "", "", MISSING),
        ("gpus", "", "-1", MISSING),
        ("gpus", "", "(null)", MISSING),
        ("gpus", "tres", "billing=4,cpu=20,gres/gpu=4,node=1", 4),
        ("gpus", "tres", "cpu=20,node=1", 0),
        ("gpus", "tres", "", MISSING),
        ("cpus", "tres", "billing=4,cpu=20,node=2", 20),
        ("nodes", "tres", "billing=4,cpu=20,node=2", 2),
        ("memory_mib", "tres", "billing=4,cpu=20,mem=62.50G,node=2", 64_000),
        ("memory_mib", "tres", "cpu=20", MISSING),
        ("memory_mib", "", "4000", 4000),
        ("memory_mib", "", "16G", 16_384),
        ("memory_mib", "", "0", 0),
        ("memory_mib", "", "N/A", MISSING),
        ("memory_mib", "GiB", "1.5", 1536),
        ("memory_mib", "KiB", "2047", 1),
        ("priority", "", "1424171", 1_424_171),
        ("state", "", "COMPLETED", int(JobState.COMPLETED)),
        ("state", "", "CANCELLED by 7", int(JobState.CANCELLED)),
        ("state", "", "Killed", int(JobState.UNKNOWN)),
        ("job_id", "", " 17_3 ", "17_3"),
        ("user", "", " ada ", "ada"),
        ("user", "", "(null)", ""),
        ("name", "", "none", "none"),
    ],
)
def test_counts_states_and_names(target: str, unit: str, cell: str, expected: Value) -> None:
    assert read(target, unit, cell) == (expected, 0)


@pytest.mark.parametrize(
    ("target", "unit", "cell", "words"),
    [
        ("submit_s", "", "yesterday", "not a time: 'yesterday'"),
        ("submit_s", "%d.%m.%Y", "2021-05-01", "expected the form %d.%m.%Y"),
        ("submit_s", "", "-5", "negative number"),
        ("submit_s", "", "1e20", "number out of range"),
        ("submit_s", "d", "10000000000000", "number out of range: '10000000000000'; check the unit"),
        ("limit_s", "", "soon", "not a duration"),
        ("limit_s", "", "1:2:3:4", "not a duration"),
        ("limit_s", "", "-60", "negative number"),
        ("nodes", "", "1.5", "not a count: '1.5'; expected a whole number"),
        ("nodes", "", "four", "not a count"),
        ("nodes", "", "-2", "negative number"),
        ("job_id", "", " ", "no job id"),
        ("gpus", "tres", "gres:gpu:2", "not a list of resources: 'gres:gpu:2'; expected the form cpu=8"),
        ("gpus", "tres", "4", "not a list of resources"),
        ("cpus", "tres", "1=8,2=4096,1001=2", "not a list of resources"),
    ],
)
def test_what_is_no_value(target: str, unit: str, cell: str, words: str) -> None:
    with pytest.raises(LineError) as refused:
        read(target, unit, cell)
    assert words in str(refused.value)
