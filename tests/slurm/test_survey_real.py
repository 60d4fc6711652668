"""``mirage doctor`` on priorities, against age and fair-share of a real slurmctld."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from mirage.errors import SlurmUnreachable
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner
from tests.support.waiting import until

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

WITHOUT = {"accounting": False}
WITH = {"accounting": True, "enforce": "associations"}
BASIC = {"accounting": False, "extra": ("PriorityType=priority/basic",)}
SPEED = 20
IGNORED = [f"PriorityWeight{name} can only be used with SlurmDBD, ignoring" for name in ("Age", "Fairshare")]


@dataclass
class Priorities:
    """A node in use, and two equal waiting jobs, submitted several periods apart.

    All name every core of the node: with ``--exclusive``, a job's size in its priority is one core until the
    scheduler has considered it and a command changes it, and then all cores.

    Attributes:
        held: A job that a dependency has held since before ``early`` was submitted.
        findings: Of ``mirage doctor``, level, value and advice by name.
        settings: What forecasts take the scheduler to be.
    """

    cluster: Any
    held: str
    early: str
    late: str
    findings: dict[str, tuple[str, str, str]]
    settings: SlurmSettings

    def of(self, job: str) -> int:
        """The priority of a job."""
        return int(self.cluster.run("squeue", "-h", "-o", "%Q", "-j", job))

    def factors(self, job: str) -> tuple[int, int]:
        """What age and fair-share add to it, as sprio shows them."""
        age, share = self.cluster.run("sprio", "-h", "-o", "%A %F", "-j", job).split()
        return int(age), int(share)

    @property
    def complaints(self) -> list[str]:
        """Of the weights, in slurmctld's log."""
        log = (self.cluster.spec.log / "slurmctld.log").read_text()
        return [words for words in IGNORED if words in log]


@pytest.fixture(scope="module")
def priorities(request: pytest.FixtureRequest, private_cluster: Any, tmp_path_factory: Any) -> Priorities:
    spec = {"nodes": 1, "gpus": 0, "speed": SPEED, **request.param}
    cluster = private_cluster(**spec, scheduler_parameters="bf_interval=5")

    cores = f"-c{cluster.spec.cpus}"

    def submit(*words: str) -> str:
        made: str = cluster.run(
            "sbatch", "--parsable", "-D/", "-o/dev/null", "-t600", cores, "--wrap=sleep 99999", *words
        )
        return made.strip()

    blocker = submit()
    held, early = submit(f"-dafterany:{blocker}"), submit()
    first_s = cluster_time(cluster)
    until(lambda: cluster_time(cluster) > first_s + 600, 60, "ten minutes of the cluster's pass")
    late = submit()
    environment = {**os.environ, **cluster.user_environment, "MIRAGE_HOME": str(tmp_path_factory.mktemp("home"))}
    words = [sys.executable, "-m", "mirage", "doctor", "--json"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    findings = {one["what"]: (one["level"], one["value"], one["advice"]) for one in json.loads(done.stdout)}
    options = SlurmClient(SystemRunner(cluster.environment)).configuration()
    settings = SlurmSettings.from_options(options, "scontrol show config")
    return Priorities(cluster, held, early, late, findings, settings)


def cluster_time(cluster: Any) -> int:
    """Seconds on the cluster's clock."""
    return int(cluster.run("date", "+%s"))


def on(*specs: dict[str, Any]) -> Callable[..., Any]:
    return pytest.mark.parametrize("priorities", specs, indirect=True)


@on(WITHOUT)
def test_without_slurmdbd_age_and_fair_share_count_for_nothing(priorities: Priorities) -> None:
    assert priorities.complaints == IGNORED
    assert priorities.factors(priorities.early) == priorities.factors(priorities.late) == (0, 0)
    equal = priorities.of(priorities.early)
    assert equal == priorities.of(priorities.late)

    shown = priorities.cluster.run("scontrol", "show", "config")
    assert "PriorityWeightAge       = 1000" in shown, "slurmctld ignores it, and shows it all the same"
    assert (priorities.settings.weight_age, priorities.settings.weight_fairshare) == (0, 0)
    assert (priorities.settings.weight_partition, priorities.settings.weight_size) == (5000, 100)
    level, value, advice = priorities.findings["age"]
    assert level == "warn"
    assert value == "counts for nothing without slurmdbd, nor does fair-share (measured on 22.05.8)"
    assert advice == "slurmctld ignores PriorityWeightAge and PriorityWeightFairshare, as do forecasts"
    assert priorities.findings["holds"][:2] == (
        "warn", "PriorityWeightAge=1,000 and PriorityWeightFairshare=2,000 are ignored",
    )  # fmt: skip
    assert priorities.findings["revisions"][1] == "a held link keeps its priority"
    held_again(priorities, equal)


@on(WITH)
def test_with_slurmdbd_age_and_fair_share_count(priorities: Priorities) -> None:
    assert priorities.complaints == []

    def grown() -> bool:
        return priorities.factors(priorities.early)[0] > 0

    until(grown, 30, "the early job has gained by its age")
    early, late = priorities.factors(priorities.early), priorities.factors(priorities.late)
    assert early[0] > late[0]
    assert early[1] > 0
    assert priorities.of(priorities.early) > priorities.of(priorities.late)

    assert (priorities.settings.weight_age, priorities.settings.weight_fairshare) == (1000, 2000)
    assert priorities.findings["age"][:2] == ("ok", "no PriorityFlags")
    assert priorities.findings["holds"][1].startswith("PriorityWeightAge=1,000 after 1-00:00:00, PriorityWeightFairsh")
    assert "keeps its age while it is held" in priorities.findings["revisions"][1]


@on(BASIC)
def test_basic_priorities_are_the_order_of_submission(priorities: Priorities) -> None:
    with pytest.raises(SlurmUnreachable, match="not running a supported priority plugin"):
        priorities.cluster.run("sprio")
    first = priorities.of(priorities.held)
    assert first > priorities.of(priorities.early) > priorities.of(priorities.late)
    held_again(priorities, first)

    lines = [" ".join(finding) for finding in priorities.findings.values()]
    assert priorities.findings["age"] == (
        "ok", "priority/basic",
        "no job has an age: priority is the order of submission, also of jobs that a dependency holds",
    )  # fmt: skip
    assert "holds" not in priorities.findings
    assert priorities.findings["revisions"][1] == "a held link keeps its priority"
    assert len([words for words in lines if re.search(r"\bage\b", words)]) == 1, "once"
    weights = [getattr(priorities.settings, name) for name in ("weight_age", "weight_size", "weight_partition")]
    assert weights == [0, 0, 0]


def held_again(priorities: Priorities, priority: int) -> None:
    """A job that is released and held again retains this priority and its place."""
    blocker = str(int(priorities.held) - 1)
    for dependency in ("", f"afterany:{blocker}", ""):
        priorities.cluster.run("scontrol", "update", f"JobId={priorities.held}", f"Dependency={dependency}")
        until(
            lambda: priorities.of(priorities.held) == priority, 30,
            lambda: f"it has {priorities.of(priorities.held)}, and an equal job {priority}",
        )  # fmt: skip
