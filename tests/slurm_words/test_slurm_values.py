"""Single values in Slurm's text."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from mirage.duration import UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.slurm_words.numbers import count_or_missing, whole_number
from mirage.slurm_words.states import NEVER_STARTED, is_known_state, job_state, true_lifetime_s
from mirage.slurm_words.values import decimal, exit_of, gpus_of, instant_s, limit_s, state_of, text_of, whole


@pytest.mark.parametrize(
    "nothing",
    ["", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN", "INVALID", "NOT_SET", "null", "  N/A\n"],
)
def test_words_for_nothing(nothing: str) -> None:
    assert text_of(nothing) == ""
    assert instant_s(nothing) == limit_s(nothing) == MISSING


def test_a_text_without_the_space_around_it() -> None:
    assert (text_of(" a b\n"), text_of("none"), text_of("Nones")) == ("a b", "none", "Nones")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8", 8), (" 8 ", 8), ("2-4", 2), ("1K", 1024), ("2k", 2048), ("3M", 3 * 1024**2), ("1G", 1024**3),
        ("4.0", 4), ("4.9", 4), ("1-2K", 1), ("", 5), ("K", 5), ("1.5K", 5), ("many", 5), ("1e400", 5), ("-3", 5),
    ],
)  # fmt: skip
def test_a_count(text: str, expected: int) -> None:
    assert whole(text, 5) == expected
    if expected == 5:
        assert whole(text) == 0


@pytest.mark.parametrize(("text", "expected"), [("4031", 4031.0), ("0.25", 0.25), ("", 0.0), ("N/A", 0.0)])
def test_a_number(text: str, expected: float) -> None:
    assert decimal(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1:0", (1, 0)), ("0:9", (0, 9)), (" 2:15 ", (2, 15)), ("3", (3, 0)), ("", (0, 0)), (":", (0, 0))],
)
def test_an_exit(text: str, expected: tuple[int, int]) -> None:
    assert exit_of(text) == expected


@pytest.mark.parametrize(
    ("tres", "gres", "nodes", "gpus"),
    [
        ("gres/gpu=16", "gpu:4", 2, 16),
        ("cpu=4", "gpu:4", 2, 8),
        ("", "gres:gpu:4", 2, 8),
        ("", "gres/gpu:a100:4", 2, 8),
        ("", "gpu:4", 0, 4),
        ("", "", 2, 0),
        ("cpu=4,gres/gpu=0", "", 2, 0),
        ("gres/gpu=1", "", 1, 1),
    ],
)
def test_gpus_in_all(tres: str, gres: str, nodes: int, gpus: int) -> None:
    assert gpus_of(tres, gres, nodes) == gpus


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2-00:00:00", 172_800), ("1:30", 90), (" 10:00 ", 600), ("UNLIMITED", UNLIMITED_S), ("infinite", UNLIMITED_S),
        ("Partition_Limit", MISSING), ("soon", MISSING),
    ],
)  # fmt: skip
def test_a_limit(text: str, expected: int) -> None:
    assert limit_s(text) == expected


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
def test_an_instant_in_this_machine_s_zone(text: str, expected: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/St_Johns")
    time.tzset()
    assert instant_s(text) == expected


@pytest.mark.parametrize(
    ("word", "state"),
    [
        *((word, JobState.RUNNING) for word in ("COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING")),
        *((word, JobState.PENDING) for word in ("REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD")),
        (" stopped\n", JobState.RUNNING),
        ("special_exit", JobState.PENDING),
        ("TIMEOUT", JobState.TIMEOUT),
        ("soon", JobState.UNKNOWN),
    ],
)
def test_a_state_of_the_queue(word: str, state: JobState) -> None:
    assert state_of(word) is state


@pytest.mark.parametrize(
    ("word", "state", "known"),
    [
        ("COMPLETED", JobState.COMPLETED, True),
        ("CANCELLED by 123", JobState.CANCELLED, True),
        ("CANCELLED+", JobState.CANCELLED, True),
        ("node_fail", JobState.NODE_FAIL, True),
        ("", JobState.UNKNOWN, True),
        ("  ", JobState.UNKNOWN, True),
        ("ON_FIRE", JobState.UNKNOWN, False),
    ],
)
def test_a_state_of_accounting(word: str, state: JobState, known: bool) -> None:
    assert job_state(word) is state
    assert is_known_state(word) is known


@pytest.mark.parametrize(
    ("state", "shown", "hosts", "expected"),
    [
        (JobState.COMPLETED, (100, 200, 100), "n1", (100, 200)),
        (JobState.RUNNING, (100, 200, 100), "n1", (100, MISSING)),
        (JobState.SUSPENDED, (100, 200, 100), "n1", (100, MISSING)),
        (JobState.PENDING, (100, 200, 0), None, (MISSING, MISSING)),
        (JobState.CANCELLED, (200, 200, 0), "None assigned", (MISSING, 200)),
        (JobState.CANCELLED, (200, 200, 0), " ", (MISSING, 200)),
        (JobState.CANCELLED, (0, 200, 0), "", (MISSING, 200)),
        (JobState.CANCELLED, (200, 200, -1), "", (MISSING, 200)),
        (JobState.CANCELLED, (199, 200, 1), "None assigned", (199, 200)),
        (JobState.CANCELLED, (200, 200, 0), "n1", (200, 200)),
        (JobState.CANCELLED, (200, 200, 0), None, (200, 200)),
        (JobState.FAILED, (200, 200, 0), "None assigned", (200, 200)),
        (JobState.CANCELLED, (MISSING, 200, 0), "None assigned", (MISSING, 200)),
    ],
)
def test_the_life_of_an_attempt(
    state: JobState, shown: tuple[int, int, int], hosts: str | None, expected: tuple[int, int]
) -> None:
    notes: Counter[str] = Counter()
    assert true_lifetime_s(state, *shown, hosts, notes) == expected
    never = state is JobState.CANCELLED and expected[0] == MISSING != shown[0]
    assert notes == ({NEVER_STARTED: 1} if never else {})


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("007", 7), ("9" * 15, 10**15 - 1), ("9" * 16, None), ("-1", None), ("1.0", None), ("٣", None),
        ("", None),
    ],
)  # fmt: skip
def test_whole_numbers(text: str, number: int | None) -> None:
    assert whole_number(text) == number
    assert count_or_missing(text) == (MISSING if number is None else number)
