"""The batch script of a link, on commands of Slurm that are played by small scripts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from mirage.agentless.link_script import AgentlessSpec, link_script, read_link_script
from mirage.agentless.shell_features import FEATURES
from mirage.agentless.shell_tree import ANSWERS, default_tree
from mirage.distill.tree import Leaf, Tree
from mirage.errors import ConfigurationError
from tests.support.waiting import until

SQUEUE = """#!/bin/sh
echo x >> polls
[ -z "$SQUEUE_STATES" ] || exit 0
echo "7 RUNNING N/A (null) agentless:train:key:1"
case "$*" in *-a*) ;; *) {hidden} ;; esac
[ ! -e sbatches ] || echo "8 PENDING N/A afterany:7(unfulfilled) {comment}"
"""
"""Job 7 runs the link, job 8 is the next one, once it was submitted."""

JOB = """#!/bin/sh
until [ "$(wc -l < polls)" -ge 5 ]; do sleep 0.02; done
"""


def write_commands(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def submissions(folder: Path, squeue: str, **environment: str) -> int:
    """Number of calls of sbatch by a link that polls at least five times."""
    waits = Tree(FEATURES, ANSWERS, Leaf("wait"))
    spec = AgentlessSpec("train", "key", str(folder), "job.sh", {}, until_done=False, every_s=0, least_s=0)
    commands = {
        "squeue": squeue, "sbatch": "#!/bin/sh\necho x >> sbatches\necho 8\n", "scancel": "#!/bin/sh\n",
        "job.sh": JOB, "link.sh": link_script(spec, waits),
    }  # fmt: skip
    write_commands(folder, commands)
    subprocess.run(
        ["sh", "link.sh", "1", "0"], cwd=folder, check=True, timeout=60, capture_output=True,
        env={"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", **environment},
    )  # fmt: skip
    return len((folder / "sbatches").read_text().split())


def test_the_rules_are_read_from_the_script_as_they_were() -> None:
    short = AgentlessSpec("train", "key", "/home/ada", "job.sh", {})
    long = AgentlessSpec(
        "train", "key", "/home/a b's", "job.sh",
        {"nodes": "2", "exclusive": None, "comment": "of #7; 'x'", "wrap": "a=b"},
        ("one", "two words", "$me", "a\nb", "#"), nodes=2, use=400, nice=7, lead_s=60, signal="", grace_s=9, warmup_s=8,
        ready_by_job=True, links=3, until_s=99, until_done=False, every_s=5, least_s=0,
    )  # fmt: skip
    for spec in (short, long):
        assert read_link_script(link_script(spec, default_tree())) == spec
    for text in ("", "#!/bin/sh\necho 'x\n", link_script(short, default_tree()).replace("use=", "usage=")):
        with pytest.raises(ConfigurationError, match="no script of a chain without an agent"):
            read_link_script(text)


def test_the_next_link_is_submitted_once(tmp_path: Path) -> None:
    squeue = SQUEUE.format(comment="agentless:train:key:2", hidden=":")
    assert submissions(tmp_path, squeue) == 1


def test_a_next_link_in_a_hidden_partition_is_found(tmp_path: Path) -> None:
    squeue = SQUEUE.format(comment="agentless:train:key:2", hidden="exit 0")
    assert submissions(tmp_path, squeue) == 1


def test_filters_of_the_user_do_not_hide_the_next_link(tmp_path: Path) -> None:
    squeue = SQUEUE.format(comment="agentless:train:key:2", hidden=":")
    assert submissions(tmp_path, squeue, SQUEUE_STATES="RUNNING") == 1


def test_a_chain_that_was_stopped_releases_nothing_while_slurm_does_not_answer(tmp_path: Path) -> None:
    squeue = """#!/bin/sh
echo x >> polls
[ $(wc -l < polls) = 1 ] || { touch stop; exit 1; }
echo "7 RUNNING $(($(date +%s)+9000)) (null) 1 1:00 1 p N/A agentless:train:key:1"
echo "8 PENDING N/A afterany:7(unfulfilled) 1 1:00 1 p N/A agentless:train:key:2"
"""
    spec = AgentlessSpec("train", "key", str(tmp_path), "job.sh", {}, until_done=False, every_s=0, least_s=0)
    texts = {
        "squeue": squeue, "scontrol": "#!/bin/sh\necho x >> releases\n", "scancel": "#!/bin/sh\nexit 1\n",
        "sleep": "#!/bin/sh\nexec /bin/sleep 0.05\n", "job.sh": JOB.replace("-ge 5", "-ge 99"),
        "link.sh": link_script(spec, Tree(FEATURES, ANSWERS, Leaf("submit"))),
    }  # fmt: skip
    write_commands(tmp_path, texts)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    link = subprocess.Popen(
        ["sh", "link.sh", "1", "0"], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    until(
        lambda: (tmp_path / "polls").exists() and len((tmp_path / "polls").read_text()) > 20,
        30,
        "it polls again and again",
    )
    os.killpg(link.pid, signal.SIGKILL)
    link.wait()
    (tmp_path / "polls").write_text("x\n" * 99)  # its script, in a session of its own, ends
    assert not (tmp_path / "releases").exists()


@pytest.mark.parametrize("comment", ["(null)", "account 17"])
def test_a_next_link_with_a_comment_of_the_site_is_found_by_its_number(tmp_path: Path, comment: str) -> None:
    squeue = SQUEUE.format(comment=comment, hidden=":")
    assert submissions(tmp_path, squeue) == 1


@pytest.mark.parametrize(
    ("left_s", "limit_s", "released"),
    [
        ("9000", 20_000, False),  # it began with almost half of a limit left to the previous link
        ("4000", 20_000, True),
        ("", 20_000, True),  # the first link
        ("9000", 40_000, True),
    ],
)
def test_a_wrong_estimate_burns_no_link_after_another(
    left_s: str, limit_s: int, released: bool, tmp_path: Path
) -> None:
    submits = Tree(FEATURES, ANSWERS, Leaf("submit"))
    spec = AgentlessSpec("train", "key", str(tmp_path), "job.sh", {}, until_done=False, every_s=0, least_s=0)
    now_s = int(time.time())
    lines = f'echo "7 RUNNING {now_s + limit_s} (null) 1 1-0 9 main N/A agentless:train:key:2"\n' + (
        '[ ! -e sbatches ] || echo "8 PENDING N/A afterany:7(unfulfilled) 1 1-0 9 main N/A agentless:train:key:3"\n'
    )
    commands = {
        "squeue": f"#!/bin/sh\necho x >> polls\n{lines}", "sbatch": "#!/bin/sh\necho x >> sbatches\necho 8\n",
        "scancel": "#!/bin/sh\n", "scontrol": "#!/bin/sh\necho $* >> updates\n", "job.sh": JOB,
        "link.sh": link_script(spec, submits),
    }  # fmt: skip
    write_commands(tmp_path, commands)
    if left_s:
        (tmp_path / "link.1").write_text(f"job=6 next=7 freed=1 quick=0 end={now_s + int(left_s)}\n")
    subprocess.run(
        ["sh", "link.sh", "2", "6"], cwd=tmp_path, check=True, timeout=60, capture_output=True,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"},
    )  # fmt: skip
    assert (tmp_path / "updates").exists() is released


@pytest.mark.parametrize("shell", [["sh"], ["bash", "--posix"]])
def test_the_processes_of_a_job_get_the_signal_and_end_after_the_grace(tmp_path: Path, shell: list[str]) -> None:
    spec = AgentlessSpec("train", "key", str(tmp_path), "job.sh", {}, grace_s=1, until_done=False, least_s=0)
    write_commands(tmp_path, {
        "squeue": SQUEUE.format(comment="agentless:train:key:2", hidden=":"), "scancel": "#!/bin/sh\n",
        "sbatch": "#!/bin/sh\necho x >> sbatches\necho 8\n", "job.sh": "#!/bin/sh\ntrap '' USR2\n./child.sh\n",
        "child.sh": "#!/usr/bin/env python3\nimport signal, time\n"
        "signal.signal(signal.SIGUSR2, lambda *_: open('warned', 'w').close())\nopen('begun', 'w').close()\n"
        "time.sleep(60)\n",
        "link.sh": link_script(spec, Tree(FEATURES, ANSWERS, Leaf("wait"))),
    })  # fmt: skip
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7"}
    link = subprocess.Popen([*shell, "link.sh", "1", "0"], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    until((tmp_path / "begun").exists, 30, "the child runs")
    link.send_signal(signal.SIGUSR2)
    assert link.wait(20) == 128 + signal.SIGTERM
    assert (tmp_path / "warned").exists()


def test_the_status_of_a_job_that_leaves_on_the_signal_is_its_own(tmp_path: Path) -> None:
    """The signal ends the wait for the job at about the time at which the job ends."""
    script = link_script(AgentlessSpec("train", "key", str(tmp_path), "job.sh", {}), default_tree())
    waits = script[script.index("while wait") : script.index("kill $w ")]
    (tmp_path / "job.sh").write_text("#!/bin/sh\ntrap 'exit 0' USR2\nwhile :; do sleep 2 & wait $!; done\n")
    (tmp_path / "job.sh").chmod(0o755)
    (tmp_path / "link.sh").write_text(
        "trap 'kill -s USR2 $child; sleep 0.1 &' USR2\n./job.sh &\nchild=$!\n(sleep 0.5; kill -s USR2 $$) &\n"
        f"{waits}exit $rc\n"
    )
    links = [subprocess.Popen(["sh", "link.sh"], cwd=tmp_path, stderr=subprocess.DEVNULL) for _ in range(40)]
    assert {link.wait(30) for link in links} == {0}


def test_every_variable_of_the_script_is_assigned_in_it(tmp_path: Path) -> None:
    script = link_script(AgentlessSpec("train", "key", str(tmp_path), "job.sh", {}), default_tree())
    assigned = re.findall(r"\b([a-z_]+)=|\bfor ([a-z_]+) in\b", script)
    assert set(re.findall(r"\$\{?([a-z_]+)", script)) <= {name for names in assigned for name in names}


@pytest.mark.parametrize(
    ("next_link", "plan", "wanted"),
    [
        ("waits='(null)' start=1600", "", "600 600"),  # it competes, and Slurm has planned its start
        ("waits='(null)' start=900", "700", "0 0"),
        ("waits='(null)' start=8000", "700", "5000 7000"),  # --test-only predicts an earlier start
        ("waits='(null)' start=N/A", "700", "5000 "),
        ("waits='(null)' start=", "700", "5000 "),
        ("waits='afterany:7(unfulfilled)' start=N/A", "700", "700 700"),  # held again: the last plan
        ("waits='afterany:7(unfulfilled)' start=1600", "", "5000 "),
    ],
)
def test_the_start_that_slurm_plans_for_the_next_link_counts_where_it_is_earlier(
    next_link: str, plan: str, wanted: str, tmp_path: Path
) -> None:
    script = link_script(AgentlessSpec("train", "key", str(tmp_path), "job.sh", {}), default_tree())
    lines = "case $waits" + script.partition("case $waits")[2].partition("\nelse")[0]
    code = f'now=1000 slurm_wait=5000 plan={plan} {next_link}\n{lines}\necho "$slurm_wait $plan"'
    done = subprocess.run(["sh", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{wanted}\n"


QUEUE = """\
7 RUNNING 1700000000 (null) 1 1:00:00 900 main agentless:train:key:1
8 PENDING N/A (null) 4 1-02:03:04 600 main agentless:train:key:2
9 PENDING N/A (null) 2 30:00 599 main (null)
10 PENDING N/A (null) 2 1:00:00 601 main (null)
11 PENDING N/A (null) 2 1:00:00 501 main (null)
12 PENDING N/A (null) 2 1:00:00 500 main (null)
13 PENDING N/A (null) 2 1:00:00 599 other (null)
14 PENDING N/A (null) 2 UNLIMITED 550 main (null)
15 PENDING N/A (null) 2 1:00:00 0 main (null)
"""
"""Jobs with their nodes, limits, priorities and partitions; 500 was the priority of job 8 before its release."""


def test_jobs_with_less_priority_than_the_next_link_do_not_delay_it(tmp_path: Path) -> None:
    script = link_script(AgentlessSpec("train", "key", str(tmp_path), "job.sh", {}), default_tree())
    function = "behind() {" + script.partition("behind() {")[2].partition("\n}\n")[0] + "\n}\n"
    code = f"sinfo() {{ echo 6; echo 4; }}\nq=$(cat) next=8 low=500 total= SLURM_JOB_PARTITION=main\n{function}behind"
    done = subprocess.run(["sh", "-c", code], input=QUEUE, capture_output=True, text=True, timeout=60, check=True)
    itself, job_9, job_11 = 4 * (26 * 3_600 + 184), 2 * 1_800, 2 * 3_600
    assert done.stdout == str((itself + job_9 + job_11) // 10)
