"""Limits and choices from the site's calibration reach the policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.agent.policy_runner.child_process import ChildProcess
from mirage.agent.policy_runner.in_process import InProcess
from mirage.agent.policy_runner.question import Answer, Question
from mirage.agent.policy_runner.site_knowledge import KnownSite, SiteKnowledge
from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.calibration.site.stored_choices import store_choices
from mirage.duration import DAY_S
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.policy_choice import PolicyChoice
from mirage.policy.view import View
from mirage.sim.cluster import Cluster, Limit
from mirage.sim.slurm_conf.cluster_file import ClusterFile, write_cluster_file
from mirage.slurm.backend import cluster_of

EIGHT, NINE = (Limit("user", jobs=8),), (Limit("user", jobs=9),)
HERE = {"clustername": "polaris", "slurmctldhost[0]": "ctl1", "slurmctldport": "6817"}


def store_file(folder: Path, options: dict[str, str], limits: tuple[Limit, ...]) -> Path:
    file = CalibrationFiles(folder, cluster_of(options)).file
    write_cluster_file(file, ClusterFile(replace(Cluster.pool(4), limits=limits)))
    return file


def test_limits_are_those_of_the_cluster_that_answers_and_read_anew_with_the_file(tmp_path: Path) -> None:
    site = SiteKnowledge(tmp_path)
    assert site.of(HERE) == KnownSite()
    store_file(tmp_path, HERE, EIGHT)
    assert site.of(HERE).limits == EIGHT
    assert site.of({**HERE, "clustername": "vega"}) == KnownSite()
    file = store_file(tmp_path, HERE, NINE)
    assert site.of(HERE).limits == NINE
    file.write_text("mirage_cluster = 'what'")
    assert site.of(HERE) == KnownSite()
    file.unlink()
    assert site.of(HERE) == KnownSite()
    assert SiteKnowledge(None).of(HERE) == KnownSite()


HERE_HOLDS = PolicyChoice("holds", "it was better", nodes=2, limit_s=DAY_S)


def test_choices_are_read_with_the_limits_and_without_them(tmp_path: Path) -> None:
    site, files = SiteKnowledge(tmp_path), CalibrationFiles(tmp_path, cluster_of(HERE))
    store_choices(files, [HERE_HOLDS])
    assert site.of(HERE) == KnownSite((), (HERE_HOLDS,))
    store_file(tmp_path, HERE, EIGHT)
    assert site.of(HERE) == KnownSite(EIGHT, (HERE_HOLDS,))
    files.choices.write_text("[]")
    assert site.of(HERE) == KnownSite(EIGHT)


def test_a_choice_reaches_auto(
    slurm: VirtualSlurm, tmp_path: Path, question: Callable[..., Question], answer: Callable[..., Answer]
) -> None:
    runner, about = InProcess(site=SiteKnowledge(tmp_path)), question("auto")

    def chosen() -> str:
        plan = answer(runner, about).plan
        assert plan is not None
        assert plan.choice is not None
        return plan.choice.policy

    assert chosen() == "holds"
    better = PolicyChoice("reactive", "it was better", nodes=about.form.nodes, limit_s=about.form.limit_s)
    store_choices(CalibrationFiles(tmp_path, cluster_of(slurm.configuration())), [better])
    assert chosen() == "reactive"


def test_a_new_calibration_makes_a_new_policy(
    slurm: VirtualSlurm, tmp_path: Path, question: Callable[..., Question], answer: Callable[..., Answer]
) -> None:
    runner = InProcess(site=SiteKnowledge(tmp_path))
    for limits in ((), EIGHT, EIGHT, NINE):
        if limits:
            store_file(tmp_path, dict(slurm.configuration()), limits)
        assert answer(runner, question("what-if:2")).plan is not None
    known = [policy.forecaster.limits for policy in runner.policies.values()]  # type: ignore[attr-defined]
    assert known == [(), EIGHT, NINE]


@pytest.mark.slow
def test_the_child_process_reads_them_too(
    slurm: VirtualSlurm, observed: View, tmp_path: Path, question: Callable[..., Question]
) -> None:
    """With a limit of no running jobs, a link does not start in any future."""
    store_file(tmp_path, dict(slurm.configuration()), (Limit("user", nodes=0),))
    requested = question("what-if:4", left_s=600)
    requested = replace(requested, form=replace(requested.form, limit_s=30 * DAY_S))
    soonest_s = []
    for folder in (None, tmp_path):
        runner = ChildProcess(calibrations=folder)
        try:
            runner.request([requested], slurm.configuration(), observed)
            (reported,) = runner.answers(120)
        finally:
            runner.close()
        assert reported.plan is not None
        soonest_s.append(reported.plan.estimate["wait_p05_s"])
    assert soonest_s[0] < soonest_s[1] == requested.form.limit_s
