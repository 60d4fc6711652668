"""Slurm's reasons in words."""

from __future__ import annotations

import pytest

from mirage.slurm_words.reasons import in_words, is_usual


@pytest.mark.parametrize("reason", ["", "None", "Priority", "Resources", "(Priority)", "Dependency"])
def test_what_passes_by_itself_needs_no_word(reason: str) -> None:
    assert is_usual(reason)
    assert in_words(reason) == ""


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("JobHeldAdmin", "held by an administrator (JobHeldAdmin)"),
        ("PartitionDown", "its partition is down (PartitionDown)"),
        ("JobArrayTaskLimit", "as many tasks of its array run as it allows at once (JobArrayTaskLimit)"),
        ("launch failed requeued held", "held by Slurm: it could not be launched (launch failed requeued held)"),
        (
            "ReqNodeNotAvail,_UnavailableNodes:n[1-2]",
            "nodes that it needs are not available: down, drained, or reserved for maintenance "
            "(ReqNodeNotAvail,_UnavailableNodes:n[1-2])",
        ),
        ("ANewReasonOfSlurm", "ANewReasonOfSlurm"),
    ],
)
def test_what_does_not_is_reported_with_slurm_s_own_word(reason: str, words: str) -> None:
    assert not is_usual(reason)
    assert in_words(reason) == words
