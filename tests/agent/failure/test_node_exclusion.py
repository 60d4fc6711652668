"""Nodes that chains avoid: which failures exclude one, and what prevents that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirage.agent.chain.submission import link_submission
from mirage.agent.cycle.retries import refused
from mirage.agent.failure.node_exclusion import exclude, exclude_where_links_fail
from mirage.agent.model import ChainState, Link
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING, JobState
from mirage.slurm.records import Submission
from tests.support.one_chain import MACHINE, NOW_S, OneChain, ended, held, job, queued

ONE_LEFT = "without it 1 node like it would be left, and a link needs 2"


def failed(number: int, nodelist: str = "n1", ran_s: int = 5, **known: Any) -> Link:
    known = {"started_s": 1_000 * number, "ended_s": 1_000 * number + ran_s, **known}
    return replace(ended(number, JobState.FAILED, **known), nodelist=nodelist)


def world(*links: Link, options: dict[str, str | None] | None = None, **chain: Any) -> OneChain:
    submission = Submission("job.sh", options or {}, directory="/home/ada")
    made = OneChain(*links, submission=submission, chain=chain)
    made.context.machine = MACHINE
    return made


def judged(*links: Link, **known: Any) -> OneChain:
    made = world(*links, **known)
    assert exclude_where_links_fail(made.context, made.chain, links[-1]) == made.chain
    return made


def test_a_node_on_which_two_links_fail_soon_is_excluded() -> None:
    made = judged(failed(1), failed(2))
    assert made.chain.excluded == "n1"
    assert made.events == [(2, "node-excluded", "n1: 2 links in a row have failed there soon after their start")]


@pytest.mark.parametrize(
    "links",
    [
        (failed(1),),
        (failed(1, "n2"), failed(2)),
        (failed(1), failed(2, ran_s=901)),  # not soon: a fourth of an hour
        (failed(1, ran_s=901), failed(2)),
        (failed(1), failed(2, ran_s=950), failed(3)),  # a link ran well there in between
        (failed(1), failed(2, signalled_s=2_001)),
        (failed(1), failed(2, cancelled_s=2_001)),
        (failed(1), failed(2, "")),
        (failed(1), replace(failed(2), outcome=JobState.PREEMPTED)),
    ],
)
def test_other_ends_exclude_no_node(links: tuple[Link, ...]) -> None:
    made = judged(*links)
    assert (made.chain.excluded, made.events) == ("", [])


def test_failures_elsewhere_in_between_do_not_matter_and_those_before_a_resume_do_not_count() -> None:
    links = failed(1), failed(2, "n2"), failed(3)
    assert judged(*links).chain.excluded == "n1"
    assert judged(*links, resumed_s=1_000).chain.excluded == ""
    assert judged(*links, resumed_s=999).chain.excluded == "n1"
    assert judged(*links, state=ChainState.PAUSED).chain.excluded == ""


def test_of_links_with_several_nodes_the_common_one_is_excluded() -> None:
    assert judged(failed(1, "n[1-2]"), failed(2, "n[2-3]")).chain.excluded == "n2"


def test_of_several_nodes_none_is_excluded_but_they_are_named() -> None:
    made = judged(failed(1, "n[1-2]"), failed(2, "n[1-2]"))
    assert made.chain.excluded == ""
    [(link, kind, detail)] = made.events
    assert (link, kind) == (2, "node-not-excluded")
    assert detail.startswith("n1,n2: 2 links in a row")
    assert detail.endswith("one cannot know which of the 2 is at fault")


@pytest.mark.parametrize(
    ("options", "nodelist", "refusal"),
    [
        ({"exclude": "n3"}, "n[1-2]", ONE_LEFT),
        ({"partition": "big"}, "n3", "without it 0 nodes like it would be left, and a link needs 1"),
        ({"exclude": "n[2-3]"}, "n1", "without it 0 nodes like it would be left, and a link needs 1"),
        ({"nodelist": "n1"}, "n1", "the chain names its nodes"),
        ({"exclude": "/home/ada/bad"}, "n1", "--exclude of the chain names a file, to which no node can be added"),
        ({"partition": "debug,gpu", "exclude": "n3"}, "n[1-2]", ONE_LEFT),
        ({}, "n9", "without it 0 nodes like it would be left, and a link needs 1"),
    ],
)
def test_no_more_is_excluded_than_leaves_the_job_runnable(
    options: dict[str, str | None], nodelist: str, refusal: str
) -> None:
    made = world(failed(1, nodelist), options=options)
    first = nodelist if nodelist != "n[1-2]" else "n1"
    exclude(made.context, made.chain, made.links[0], [first], "it is broken")
    assert made.chain.excluded == ""
    assert made.events == [(1, "node-not-excluded", f"{first}: it is broken; {refusal}")]


@pytest.mark.parametrize("options", [{}, {"partition": "gpu"}, {"partition": "debug,gpu"}, {"partition": "renamed"}])
def test_enough_nodes_are_left(options: dict[str, str | None]) -> None:
    made = world(failed(1), options=options, excluded="n2")
    exclude(made.context, made.chain, made.links[0], ["n1"], "it is broken")
    assert made.chain.excluded == "n2,n1"
    exclude(made.context, made.chain, made.links[0], ["n1"], "it is broken")
    assert len(made.events) == 1, "it is excluded already"


def test_without_knowledge_of_the_cluster_no_node_is_excluded() -> None:
    made = world(failed(1))
    made.context.machine = None
    exclude(made.context, made.chain, made.links[0], ["n1"], "it is broken")
    assert made.events == [(1, "node-not-excluded", "n1: it is broken; the nodes of the cluster are not known yet")]


@pytest.mark.parametrize("waiting", [held(2), queued(2)])
def test_a_link_that_waits_avoids_the_node_too(waiting: Link) -> None:
    made = world(failed(1), waiting, options={"exclude": "n4"}).shows(job(102, JobState.PENDING, link=2))
    exclude(made.context, made.chain, made.links[0], ["n1"], "it is broken")
    assert made.slurm.calls == [("update", 102, {"ExcNodeList": "n4,n1"})]


def test_a_link_that_has_started_in_the_meantime_is_reported() -> None:
    made = world(failed(1), held(2)).shows(job(102, JobState.PENDING, link=2))
    made.slurm.refuses["update"] = "Job is no longer pending execution for job 102"
    exclude(made.context, made.chain, made.links[0], ["n1"], "it is broken")
    assert made.chain.excluded == "n1"
    assert made.events[1][:2] == (2, "node-not-excluded")


def test_the_next_submission_excludes_the_user_s_nodes_and_those_of_failures() -> None:
    chain = world(options={"exclude": "n[7-8]"}, excluded="n1,n2").chain
    assert link_submission(chain, "store", 3, MISSING, hold=False).options["exclude"] == "n[7-8],n1,n2"
    assert link_submission(world(excluded="n1").chain, "s", 3, MISSING, hold=False).options["exclude"] == "n1"
    assert "exclude" not in link_submission(world().chain, "s", 3, MISSING, hold=False).options


def test_where_slurm_has_no_node_left_for_the_job_the_exclusion_is_cleared() -> None:
    error = SlurmRefused("sbatch: error: Batch job submission failed: Requested node configuration is not available")
    made = world(failed(1), excluded="n1", next_try_s=7)
    refused(made.context, made.chain, made.links[0], error)
    assert (made.chain.excluded, made.chain.refusals, made.chain.next_try_s) == ("", 0, 7)
    assert made.events[1] == (0, "exclusion-cleared", "n1: without them no node can run the job")
    refused(made.context, made.chain, made.links[0], error)
    assert (made.chain.refusals, made.chain.next_try_s) == (1, NOW_S + 60), "the job itself does not fit"
