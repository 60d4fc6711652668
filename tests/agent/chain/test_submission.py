"""The submission of a link, as sbatch gets it."""

from __future__ import annotations

import pytest

from mirage.agent.chain.submission import Attempt, attempt_accepted, effective_options, link_submission
from mirage.agent.model import Chain, ChainSpec, Link, LinkState
from mirage.job_state import MISSING
from mirage.slurm.records import Submission
from mirage.slurm.ssh_runner import _PASSED_ON
from tests.support.one_chain import OneChain


def composed(number: int = 2, previous: int = 17, hold: bool = True, environment=None, **options) -> Submission:
    requested = Submission("job.sh", {name.replace("_", "-"): value for name, value in options.items()},
                       environment=environment or {})  # fmt: skip
    return link_submission(Chain(1, "train", ChainSpec(requested), 0, key="deer"), "safe", number, previous, hold)


def test_a_link_carries_its_tag_and_retains_the_user_s_comment() -> None:
    assert composed(comment="for the paper").options["comment"] == "mirage:train:2:safe.deer | for the paper"
    assert composed().options["comment"] == "mirage:train:2:safe.deer"


def test_a_link_waits_for_the_one_that_runs() -> None:
    assert composed().options["dependency"] == "afterany:17"
    assert "dependency" not in composed(hold=False).options


def test_what_the_user_waits_for_holds_the_first_link_only() -> None:
    assert composed(1, MISSING, hold=False, dependency="afterok:5", begin="now+1hour").options["begin"] == "now+1hour"
    later = composed(2, 17, dependency="afterok:5", begin="now+1hour").options
    assert later["dependency"] == "afterany:17"
    assert "begin" not in later


def test_slurm_itself_is_to_signal_a_link_where_the_chain_reports_so() -> None:
    def signal(**spec: object) -> str | None:
        requested = Submission("job.sh", {"time": "60"})
        chain = Chain(1, "train", ChainSpec(requested, **spec), 0, key="deer")
        return link_submission(chain, "safe", 2, 17, hold=True).options.get("signal")

    assert signal(slurm_warning_s=120) == "B:USR2@120"
    assert signal(slurm_warning_s=30, signal="10") == "B:10@30"
    assert signal() is None


def test_the_job_gets_its_identity() -> None:
    reported = composed(environment={"HOME": "/home/ada"}).environment
    assert reported == {
        "HOME": "/home/ada", "MIRAGE_CHAIN": "train", "MIRAGE_LINK": "2", "MIRAGE_TAG": "mirage:train:2:safe.deer",
        "MIRAGE_PREVIOUS_JOB": "17", "MIRAGE_READY_AFTER": "0",
    }  # fmt: skip
    assert "MIRAGE_PREVIOUS_JOB" not in composed(1, MISSING, hold=False).environment


@pytest.mark.parametrize(
    ("spec", "after"),
    [({}, "0"), ({"warmup_s": 600}, "600"), ({"ready_by_job": True}, None), ({"ready_command": "true"}, None)],
)
def test_a_job_knows_whether_its_word_about_readiness_counts(spec: dict[str, object], after: str | None) -> None:
    chain = Chain(1, "train", ChainSpec(Submission("job.sh"), **spec), 0, key="deer")
    variables = link_submission(chain, "safe", 1, MISSING, False).environment
    assert variables.get("MIRAGE_READY_AFTER") == after
    assert variables.get("MIRAGE_GRACE") == ("120" if chain.spec.ready_by_job else None), "a takeover waits for it"
    assert [name for name in variables if not _PASSED_ON.fullmatch(name)] == [], "ssh passes them on"


@pytest.mark.parametrize(
    ("export", "expected"),
    [
        ("ALL", "ALL"),
        ("PATH,HOME", "PATH,HOME,MIRAGE_CHAIN,MIRAGE_LINK,MIRAGE_TAG,MIRAGE_READY_AFTER,MIRAGE_PREVIOUS_JOB"),
        ("ALL,X=1", "ALL,X=1,MIRAGE_CHAIN,MIRAGE_LINK,MIRAGE_TAG,MIRAGE_READY_AFTER,MIRAGE_PREVIOUS_JOB"),
        ("NONE", "MIRAGE_CHAIN,MIRAGE_LINK,MIRAGE_TAG,MIRAGE_READY_AFTER,MIRAGE_PREVIOUS_JOB"),
    ],
)
def test_the_job_is_reported_whatever_the_user_exports(export: str, expected: str) -> None:
    options = composed(export=export).options
    assert options["export"] == expected
    assert "get-user-env" not in options
    assert composed(environment={"SBATCH_EXPORT": export}).options.get("export", "ALL") == expected


@pytest.mark.parametrize(
    ("held", "state", "released_s"), [(True, LinkState.HELD, MISSING), (False, LinkState.QUEUED, 70)]
)
def test_a_held_link_waits_only_from_its_release(held: bool, state: LinkState, released_s: int) -> None:
    world = OneChain(link := Link(1, 2, attempted_s=60))
    attempt_accepted(world.store, Attempt(link, Submission("job.sh"), held), 42, 70)
    stored = world.store.rows[1, 2]
    assert (stored.job, stored.submitted_s, stored.state, stored.released_s) == (42, 70, state, released_s)
    assert [event.detail for event in world.store.reported] == ["job 42, held" if held else "job 42"]


def test_the_command_line_overrides_the_environment_and_that_the_script() -> None:
    script = b"#!/bin/sh\n#SBATCH --output=a --error=b -x n3\n#SBATCH -J c\nrun\n#SBATCH --chdir=/no\n"
    submission = Submission("job.sh", {"output": "d"}, environment={"SBATCH_OUTPUT": "e", "SBATCH_ERROR": "f"})
    found = effective_options(submission, script)
    assert found == {"output": "d", "error": "f", "exclude": "n3", "job-name": "c"}
