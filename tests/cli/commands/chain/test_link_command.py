"""``mirage link``: what a job says of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirage.job_state import JobState
from mirage.slurm.values import QueuedJob

Type = Callable[..., tuple[str, str]]


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, slurm: Any) -> Any:
    """The environment of link 2 of serve, job 102."""
    for name, value in (("MIRAGE_CHAIN", "serve"), ("MIRAGE_LINK", "2"), ("SLURM_JOB_ID", "102")):
        monkeypatch.setenv(name, value)
    return slurm


@pytest.mark.parametrize(
    ("word", "comment", "said"),
    [
        ("ready", "mirage:serve:2", "mirage:serve:2 ready"),
        ("ready", "mirage:serve:2 ready | mine", "mirage:serve:2 ready | mine"),
        ("ready", "changed by hand", "mirage:serve:2 ready"),
        ("done", "mirage:serve:2 ready", "mirage:serve:2 ready done"),
        ("done", "", "mirage:serve:2 done"),
    ],
)
def test_a_job_says_its_word_in_its_own_comment(type_: Type, inside: Any, word: str, comment: str, said: str) -> None:
    inside.jobs = (QueuedJob(102, JobState.RUNNING, comment=comment),)
    assert type_("link", word) == ("", "")
    assert inside.calls == [("update", 102, {"Comment": said})]


def test_a_job_that_is_done_takes_its_follower_out_of_the_queue(type_: Type, inside: Any) -> None:
    inside.jobs = (
        QueuedJob(101, JobState.PENDING, comment="mirage:serve:1"),
        QueuedJob(103, JobState.PENDING, comment="mirage:serve:3 | mine"),
        QueuedJob(104, JobState.RUNNING, comment="mirage:serve:4"),
        QueuedJob(105, JobState.PENDING, comment="mirage:train:3"),
        QueuedJob(106, JobState.PENDING, comment="mirage"),
    )
    type_("link", "done")
    assert inside.calls[1:] == [("cancel", 103)]


@pytest.mark.parametrize(("name", "value"), [("MIRAGE_CHAIN", ""), ("MIRAGE_LINK", "two"), ("SLURM_JOB_ID", "102_3")])
def test_a_word_outside_a_job_of_a_chain_is_refused(
    type_: Type, inside: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert type_("link", "ready", status=1)[1] == (
        "mirage: error: this is no job of a chain: MIRAGE_CHAIN, MIRAGE_LINK and SLURM_JOB_ID are not all set; submit "
        "it with `mirage submit`\n"
    )
    assert inside.calls == []
