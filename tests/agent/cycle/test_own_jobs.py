"""Our own jobs among those of a cluster: by user and by tag, whatever their comments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mirage.agent.chain.tag import parse_tag
from mirage.agent.cycle.own_jobs import is_of_link, own_jobs, tag_of
from mirage.agent.model import Chain, ChainSpec, Link, LinkState
from mirage.job_state import JobState
from mirage.slurm.records import AccountedJob, QueuedJob, Submission
from tests.support.one_chain import KEY, STORE, USER, job, tagged

OURS = replace(job(101, link=2), user=USER)
"""Link 2 of the chain."""

CHAIN = Chain(1, "train", ChainSpec(Submission("job.sh")), 0, key=KEY)
LINK = Link(1, 2, LinkState.QUEUED, job=101, submitted_s=1_000)

LINE = f"sbatch --parsable --comment={tagged(2)} job.sh"


def test_a_job_of_ours_is_found_by_its_number_and_by_its_tag() -> None:
    own = own_jobs([OURS], USER, STORE)
    assert own.by_id == {101: OURS}
    assert own.tagged == {(KEY, 2): [OURS]}


@pytest.mark.parametrize(
    "other",
    [
        replace(OURS, user="eve"),
        replace(OURS, user=""),
        replace(OURS, comment=tagged(2, store="fern")),
        replace(OURS, comment=tagged(2, store="fern"), user="eve"),
    ],
)
def test_another_user_or_another_store_with_the_same_name_is_another(other: QueuedJob) -> None:
    own = own_jobs([other], USER, STORE)
    assert (own.by_id, own.tagged) == ({}, {})


@pytest.mark.parametrize("comment", ["", "billed to physics", "mirage:train:2", f"{tagged(2)} and more"])
def test_where_the_site_has_replaced_the_comment_the_number_must_do(comment: str) -> None:
    changed = replace(OURS, comment=comment)
    own = own_jobs([changed], USER, STORE)
    assert (own.by_id, own.tagged) == ({101: changed}, {})
    assert is_of_link(changed, CHAIN, LINK)
    assert own_jobs([replace(changed, user="eve")], USER, STORE).by_id == {}


@pytest.mark.parametrize(
    ("comment", "ours"),
    [(tagged(2), True), (tagged(2, "ready@7 done"), True), (tagged(3), False), (tagged(2, key="geese"), False)],
)
def test_a_number_that_another_link_claims_is_not_this_link(comment: str, ours: bool) -> None:
    assert is_of_link(replace(OURS, comment=comment), CHAIN, LINK) is ours
    assert is_of_link(AccountedJob(101, JobState.FAILED, comment=comment), CHAIN, LINK) is ours


@pytest.mark.parametrize("options", [{}, {"job-name": "bert"}])
@pytest.mark.parametrize(
    ("script", "name", "later_s", "ours"),
    [
        ("", "foreign", 59, True), ("", "foreign", 61, False), ("", "own", 61, True),
        ("#SBATCH -J gpt", "job.sh", 61, False), (None, "foreign", 61, True),
    ],
)  # fmt: skip
def test_a_number_that_slurm_gives_again_is_not_this_link(
    script: str | None, name: str, later_s: int, ours: bool, options: dict[str, str], tmp_path: Path
) -> None:
    """A requeued link has the name of the chain's jobs, if the site replaces comments."""
    if script is not None:
        (tmp_path / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    submission = Submission(str(tmp_path / "job.sh"), options)
    chain = replace(CHAIN, spec=replace(CHAIN.spec, submission=submission))
    name = options.get("job-name", "job.sh") if name == "own" else name
    again = replace(OURS, comment="", name=name, submit_s=LINK.submitted_s + later_s)
    assert is_of_link(again, chain, LINK) is ours
    accounted = AccountedJob(101, JobState.FAILED, name=name, submit_s=again.submit_s)
    assert is_of_link(accounted, chain, LINK) is ours


def test_jobs_with_one_tag_are_all_stored() -> None:
    jobs = [OURS, replace(OURS, id=102), replace(OURS, id=103, comment=tagged(3)), replace(OURS, id=104, user="eve")]
    own = own_jobs(jobs, USER, STORE)
    assert {key: [one.id for one in found] for key, found in own.tagged.items()} == {
        (KEY, 2): [101, 102],
        (KEY, 3): [103],
    }
    assert list(own.by_id) == [101, 102, 103]


@pytest.mark.parametrize(
    ("comment", "line", "tag"),
    [
        (tagged(2, "done"), "", tagged(2, "done")),
        ("", LINE, tagged(2)),
        ("replaced by the site", LINE, tagged(2)),
        (tagged(3), LINE, tagged(3)),
        ("", "sbatch job.sh", None),
        ("", "", None),
    ],
)
def test_accounting_identifies_by_the_comment_or_the_command_line(comment: str, line: str, tag: str | None) -> None:
    known = AccountedJob(101, JobState.COMPLETED, comment=comment, submit_line=line)
    assert tag_of(known) == (parse_tag(tag) if tag else None)
