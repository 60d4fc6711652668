"""States of jobs in the words of the queue and of accounting."""

from __future__ import annotations

from collections import Counter

import pytest

from mirage.job_state import MISSING, JobState
from mirage.slurm_words.states import NEVER_STARTED, is_known_state, job_state, state_of, true_lifetime_s


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
        ("OUT_OF_ME+", JobState.OUT_OF_MEMORY, True),
        ("RE+", JobState.UNKNOWN, False),
        ("RESIZING", JobState.RUNNING, True),
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
        (JobState.DEADLINE, (200, 200, 0), "None assigned", (MISSING, 200)),
        (JobState.DEADLINE, (100, 200, 100), "n1", (100, 200)),
        (JobState.CANCELLED, (0, 200, 0), "", (MISSING, 200)),
        (JobState.CANCELLED, (200, 200, -1), "", (MISSING, 200)),
        (JobState.CANCELLED, (199, 200, 1), "None assigned", (199, 200)),
        (JobState.CANCELLED, (200, 200, 0), "n1", (200, 200)),
        (JobState.CANCELLED, (200, 200, 0), None, (MISSING, 200)),
        (JobState.CANCELLED, (199, 200, MISSING), None, (199, 200)),
        (JobState.FAILED, (200, 200, 0), "None assigned", (200, 200)),
        (JobState.CANCELLED, (MISSING, 200, 0), "None assigned", (MISSING, 200)),
    ],
)
def test_the_life_of_an_attempt(
    state: JobState, shown: tuple[int, int, int], hosts: str | None, expected: tuple[int, int]
) -> None:
    notes: Counter[str] = Counter()
    assert true_lifetime_s(state, *shown, hosts, notes) == expected
    never = state in (JobState.CANCELLED, JobState.DEADLINE) and expected[0] == MISSING != shown[0]
    assert notes == ({NEVER_STARTED: 1} if never else {})
