"""Our own jobs among those of a cluster: by user and by tag, whatever their comments."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirage.agent.chain.tag import parse_tag
from mirage.agent.cycle.own_jobs import is_of_link, own_jobs, tag_of
from mirage.job_state import JobState
from mirage.slurm.records import AccountedJob, QueuedJob
from tests.support.one_chain import KEY, STORE, USER, job, tagged

OURS = replace(job(101, link=2), user=USER)
"""Link 2 of the chain."""

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
    assert is_of_link(changed, KEY, 2)
    assert own_jobs([replace(changed, user="eve")], USER, STORE).by_id == {}


@pytest.mark.parametrize(
    ("comment", "ours"),
    [(tagged(2), True), (tagged(2, "ready@7 done"), True), (tagged(3), False), (tagged(2, key="geese"), False)],
)
def test_a_number_that_another_link_claims_is_not_this_link(comment: str, ours: bool) -> None:
    assert is_of_link(replace(OURS, comment=comment), KEY, 2) is ours
    assert is_of_link(AccountedJob(101, JobState.FAILED, comment=comment), KEY, 2) is ours


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
