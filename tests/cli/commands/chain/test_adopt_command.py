"""``mirage adopt`` as it is typed: what it prints, refuses, and changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.agent.chain.tag import parse_tag
from mirage.agent.model import LinkState
from mirage.agent.store.sql_store import SqlStore
from mirage.cli import main
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob, Submission
from mirage.slurm.runner import Completed
from tests.cli.commands.chain.conftest import NOW_S, Slurm, Type

SCRIPT = b"#!/bin/bash\n#SBATCH -t 10\ntrap 'save' USR1\ntrain & wait\n"
JOB = QueuedJob(
    41, JobState.PENDING, "train", "ada", partition="gpu", qos="normal", submit_s=NOW_S - 50, limit_s=600,
    eligible_s=NOW_S - 50, comment="mine",
)  # fmt: skip
TEXT = """JobId=41 JobName=train
   UserId={user}(1000) JobState=PENDING BatchFlag=1 Requeue=1 TimeLimit=00:10:00 NumNodes=1 NumTasks=1
   Partition=gpu OverSubscribe=OK
   Command={folder}/train.sh a
   WorkDir={folder}
   StdErr={folder}/slurm-41.out
   StdOut={folder}/slurm-41.out
"""


class Commands:
    """Prints one job, and writes its batch script."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.user, self.script = folder, "ada", SCRIPT

    def run(self, argv: Sequence[str], **_: Any) -> Completed:
        if list(argv[:4]) == ["scontrol", "--all", "show", "job"]:
            if argv[4] != "41":
                return Completed(1, "", "slurm_load_jobs error: Invalid job id specified")
            return Completed(0, TEXT.format(user=self.user, folder=self.folder), "")
        if list(argv[:3]) == ["scontrol", "write", "batch_script"]:
            Path(argv[4]).write_bytes(self.script)
            return Completed(0, "", "")
        return Completed(1, "", "Slurm accounting storage is disabled")


class Site(Slurm):
    """A controller that stores the comments of its jobs."""

    runner: Commands

    def update(self, job: int, changes: dict[str, str]) -> None:
        super().update(job, changes)
        self.jobs = tuple(replace(one, comment=changes["Comment"]) for one in self.jobs)


@pytest.fixture
def site(store: SqlStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Site:
    from mirage.cli import cli_context as cluster

    made = Site()
    made.runner, made.jobs = Commands(tmp_path), (JOB,)
    for name in ("scontrol", "sbatch"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(cluster, "client", lambda *_: made)
    return made


def test_a_dry_run_shows_each_part_with_its_source_and_changes_nothing(
    type_: Type, site: Site, store: SqlStore
) -> None:
    before = len(store.chains())
    printed, _ = type_("adopt", "41", "--dry-run", "--chain", "goes-on", "--links", "3", "-N", "2")
    assert printed.splitlines()[0] == "job 41: PENDING, train"
    for line in (
        "found: script: train.sh, 4 lines [scontrol write batch_script]",
        "found: arguments: a [the queue]",
        "found: options: --time=10 --partition=gpu --job-name=train --nodes=2 [its #SBATCH lines, and the queue]",
        "unknown: options that the queue does not show: --signal, --open-mode, --propagate, --gpu-bind, "
        "--kill-on-invalid-dep",
        "would: scontrol update JobId=41 Comment=mirage:goes-on:1:...",
        "would: when link 2 is ready, job 41 gets USR1 (shell): the script has a trap for USR1",
    ):
        assert line in printed.splitlines()
    assert "warning: no source shows the environment of job 41" in printed
    assert (site.calls, len(store.chains())) == ([], before)
    assert not (Path(site.runner.folder) / "home" / "chains" / "goes-on").exists()


def test_a_controller_that_is_down_is_found_before_any_other_query(type_: Type, site: Site) -> None:
    site.trouble = SlurmUnreachable("scontrol ping found no controller that is up", "DOWN")
    site.runner = None  # a query fails the test
    _, printed = type_("adopt", "41", "--no-agent", status=1)
    assert printed == "mirage: error: scontrol ping found no controller that is up: DOWN\n"


def test_the_job_becomes_link_1_and_no_second_time(type_: Type, site: Site, store: SqlStore) -> None:
    printed, remarks = type_("adopt", "41", "--chain", "goes-on", "--links", "3", "--no-agent", "-N2")
    assert printed == "Adopted batch job 41\n"
    assert "chain goes-on, policy auto; job 41 is link 1, and link 2 follows it" in remarks
    chain = store.chain("goes-on")
    (link,) = store.links(chain.id)
    assert (link.job, link.state, link.submitted_s) == (41, LinkState.QUEUED, NOW_S - 50)
    assert (chain.spec.signal, chain.spec.to_batch_shell, chain.spec.links) == ("USR1", True, 3)
    assert chain.spec.submission.arguments == ("a",)
    tag = parse_tag(site.jobs[0].comment)
    assert tag is not None
    assert (tag.chain, tag.link, tag.key, tag.rest) == ("goes-on", 1, chain.key, "mine")
    assert "is link 1 of chain goes-on already" in type_("adopt", "41", status=1)[1]
    site.jobs = (JOB,)  # a site has replaced the comment
    assert "is link 1 of chain goes-on already" in type_("adopt", "41", status=1)[1]


def test_a_quiet_adoption_prints_nothing_and_is_no_option_of_later_jobs(
    type_: Type, site: Site, store: SqlStore
) -> None:
    assert type_("adopt", "41", "-Q", "--chain", "goes-on", "--links", "3", "--no-agent") == ("", "")
    assert "quiet" not in store.chain("goes-on").spec.submission.options
    (link,) = store.links(store.chain("goes-on").id)
    assert link.job == 41


def test_one_link_has_no_successor_and_an_early_end_is_a_warning(type_: Type, site: Site) -> None:
    printed, _ = type_("adopt", "41", "--dry-run", "--links", "1")
    assert "job 41 is link 1, and no link follows it\n" in printed
    assert "link 2" not in printed
    for words in (["--dry-run"], ["--no-agent"]):
        _, remarks = type_("adopt", "41", "--for", "5", *words)
        assert "in 00:05:00: the job that runs then is ended before its time limit; give a later end with" in remarks


def test_options_that_slurm_would_refuse_are_a_warning(
    type_: Type, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def refuse(submission: Submission) -> str:
        tried.append((submission.options["nodes"], Path(submission.script).read_bytes()))
        raise SlurmRefused("sbatch failed with status 1", "more nodes than there are")

    monkeypatch.setattr(site, "test", refuse)
    assert "would refuse the next job now: sbatch failed with" in type_("adopt", "41", "--dry-run", "-N", "9")[1]
    assert tried == [("9", SCRIPT)]


def test_the_number_may_come_last(type_: Type, site: Site) -> None:
    assert type_("adopt", "--dry-run", "41")[0].startswith("job 41: PENDING, train\n")


def test_a_training_waits_for_the_job_before_it_and_is_not_requeued(type_: Type, site: Site, store: SqlStore) -> None:
    site.runner.script = b"#!/bin/bash\n#SBATCH -t 10\nsrun torchrun train.py\n"
    plain = json.loads(type_("adopt", "41", "--json", "--dry-run")[0])["steps"]
    assert any("starts while the one before it still runs" in step for step in plain)
    words = ("--framework", "hf", "--ready-by-job", "--json", "--dry-run")
    loaded_first = json.loads(type_("adopt", "41", *words)[0])["steps"]
    assert not any("waits until the one before it has left" in step for step in loaded_first), "it would never report"
    words = ("--framework", "hf", "--chain", "trains", "--links", "3", "--grace", "4m", "--no-agent")
    type_("adopt", "41", *words)
    spec = store.chain("trains").spec
    assert site.calls[0][2]["Requeue"] == "0"  # type: ignore[index]
    assert (spec.framework, spec.to_batch_shell, spec.first_signal) == ("hf", True, "none")
    assert "no-requeue" in spec.submission.options
    script = (Path(spec.folder) / spec.submission.script).read_text()
    assert "squeue -h -j" in script
    assert "MIRAGE_WRAPPED" in script
    assert "-lt 900 ]" in script, "the grace is shorter"


def test_json_has_each_part(type_: Type, site: Site) -> None:
    made = json.loads(type_("adopt", "41", "--json", "--no-agent", "--links", "2", "--first-signal", "none")[0])
    assert (made["job"], made["state"]) == (41, "PENDING")
    assert made["signal"] == {"name": "", "to": "all", "why": "you gave none"}
    assert {one["what"] for one in made["found"]} == {
        "working directory", "script", "arguments", "environment", "options",
    }  # fmt: skip
    assert any("loses what it has not saved since its last checkpoint" in step for step in made["steps"])


@pytest.mark.parametrize(
    ("number", "why"),
    [
        ("41_3", "41_3 names a task of an array: a chain is one job after another"),
        ("41+1", "a component of a heterogeneous job"),
        ("41@other", "a job of another cluster"),
        ("41.0", "a step; give the number of its job"),
        ("train", "'train' is no number of a job; squeue --me lists yours"),
        ("job.sh", "'job.sh' is no number of a job; squeue --me lists yours"),
        ("0", "'0' is no number of a job; squeue --me lists yours"),
        ("42", "Invalid job id specified"),
    ],
)
def test_what_is_no_job_of_this_cluster_is_refused(type_: Type, site: Site, number: str, why: str) -> None:
    assert why in type_("adopt", number, status=1)[1]
    assert site.calls == []


def test_other_refusals_come_before_anything_is_changed(
    type_: Type, site: Site, store: SqlStore, tmp_path: Path
) -> None:
    before = len(store.chains())
    site.runner.user = "eve"
    assert "job 41 belongs to eve, not to ada" in type_("adopt", "41", status=1)[1]
    site.runner.user = "ada"
    site.runner.script = b"no script"
    assert "does not begin with #!" in type_("adopt", "41", status=1)[1]
    site.runner.script = SCRIPT
    assert "--hold" in type_("adopt", "41", "--hold", status=1)[1]
    assert "there is a chain 'serve' already" in type_("adopt", "41", "--chain", "serve", status=1)[1]
    assert "the script is that of job 41; give options only" in type_("adopt", "41", "other.sh", status=2)[1]
    printed = type_("adopt", "--dry-run", "41", "--links", "2", status=2)[1]
    assert "comes before --links: mirage adopt 41 [OPTIONS]" in printed, "--dry-run is not lost"
    assert "Missing argument 'JOB'" in type_("adopt", "--json", status=2)[1]
    (tmp_path / "config" / "mirage").mkdir(parents=True)
    (tmp_path / "config" / "mirage" / "site.toml").write_text('no_chains_in_partitions = ["gpu"]\n')
    assert "this site allows no chains in partition gpu" in type_("adopt", "41", status=1)[1]
    assert (site.calls, len(store.chains())) == ([], before)


def test_without_slurm_it_names_where_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["adopt", "41"]) == 1
    assert "there is no sbatch here; run this on a login node" in capsys.readouterr().err
