"""Failing links on a real slurmctld: storms, causes in outputs, nodes to avoid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirage.job_state import JobState
from tests.support.started_agents import no_agent_outlives_its_test  # noqa: F401  a fixture for every test here
from tests.support.user_shell import Shell
from tests.support.waiting import terminate

pytestmark = [pytest.mark.real_slurm, pytest.mark.slow]

OUTPUT = "#!/bin/bash\n#SBATCH --output=%x-%j.out\n"

BROKEN = f"{OUTPUT}echo step 1\nexit 3\n"

NO_MODULE = f"""{OUTPUT}echo "ModuleNotFoundError: No module named 'apex'" >&2\nexit 1\n"""

BAD_NODE = f"""{OUTPUT}
[ -e $1 ] || echo $SLURMD_NODENAME > $1
[ "$(cat $1)" = $SLURMD_NODENAME ] && {{ echo "$2"; exit 3; }}
trap 'exit 0' USR2
while true; do sleep 600 & wait $!; done
"""
"""Fails on the node of its first run."""


def test_storms_stop_and_bad_nodes_are_avoided(private_cluster: Any, tmp_path: Path) -> None:
    shell = Shell(private_cluster(nodes=3, gpus=0, min_job_age_s=36_000), tmp_path)
    for name, text in (("broken.sh", BROKEN), ("module.sh", NO_MODULE), ("node.sh", BAD_NODE)):
        shell.script(name, text)
    brakes = ("-n1", "-t", "10", "--policy", "lead:0.01")
    shell.submit("storm", *brakes, "broken.sh")
    shell.submit("module", *brakes, "module.sh")
    shell.submit("fails", *brakes, "node.sh", "bad", "step 1")
    shell.submit("xid", *brakes, "node.sh", "lost", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
    agent = shell.agent_with(poll_s=1, busy_poll_s=1, sight_s=5, first_retry_s=8)
    for chain in ("storm", "module"):
        shell.until(lambda: shell.row(chain)["state"] == "paused", 90, f"{chain} is paused")  # noqa: B023
        assert len(shell.jobs(chain)) <= 3, "the storm stops within three links"
    assert "3 links in a row failed soon after their start" in shell.row("storm")["why"]
    assert "import-error (Python cannot import a module): ModuleNotFoundError: No module" in shell.row("module")["why"]
    assert shell.kinds("storm").count("cause-unknown") == 3
    for chain, file in (("fails", "bad"), ("xid", "lost")):
        bad = (tmp_path / file).read_text().strip()
        shell.until(lambda: running_on(shell, chain) not in ("", bad), 120, f"{chain} runs on another node")  # noqa: B023
        assert shell.row(chain)["excluded"] == [bad]
        assert f"excluded nodes: {bad}; " in shell.mirage("chain", "show", chain)
        last = max(shell.jobs(chain))
        assert last <= 4, "two failed, one runs, the next may wait"
        details = [json.loads(line) for line in shell.mirage("chain", "log", chain, "--json").splitlines()]
        assert any(event["kind"] == "node-excluded" and event["detail"].startswith(bad) for event in details)
        shell.mirage("chain", "edit", chain, "--clear-excluded")
        assert shell.row(chain)["excluded"] == []
    shell.submit("leaves", *brakes, "serve.sh")
    shell.until(lambda: running_on(shell, "leaves") and 2 in shell.jobs("leaves"), 60, "a link waits for its end")
    first = running_on(shell, "leaves")
    shell.cluster.run("scontrol", "update", f"NodeName={first}", "State=DRAIN", "Reason=repair")
    shell.until(lambda: running_on(shell, "leaves") not in ("", first), 60, "the next link runs on another node")
    assert f"node-leaves-service:draining:{first}" in shell.mirage("chain", "explain", "leaves", "-n", "9")
    terminate(agent)


def running_on(shell: Shell, chain: str) -> str:
    """The node of the running link; empty where none runs for longer than a failing one."""
    running = [job for jobs in shell.found(chain).values() for job in jobs if job.state is JobState.RUNNING]
    return running[-1].nodelist if running else ""
