"""One agent, 500 chains, a queue of 20,000 jobs: commands a poll, memory, seconds a cycle.

    python benchmarks/agent/agent_load.py --chains 500 --jobs 20000 --policy average

The agent runs in a process of its own, as for a user. Slurm's commands are programs on PATH that print a prepared queue
in the format of squeue, so the agent is measured, and not slurmctld. Each chain has a running link and a held one, and
is served in every cycle. The first cycles, in which the agent reads the description of the cluster, count too.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from mirage.slurm.text.sacct import DELIMITER
from mirage.slurm.text.squeue import FIELD, FIELDS, RECORD

NODES = 2_000
CHILD = "import agent_load; agent_load.watched({url!r}, {cycles}, {policy!r})"


def queue_of(tags: list[str], user: str, jobs: int, now_s: int, dice: random.Random) -> str:
    """What squeue prints: the links, then jobs of others; most wait.

    Args:
        tags: Of the chains, with a place for the number of the link.
    """
    rows, chains = [], len(tags)

    def add(
        number: int, state: str, nodes: int, limit_h: int, submit_s: int, start_s: int, host: str, **more: str
    ) -> None:
        cells = dict.fromkeys(FIELDS, "")
        cells |= {
            "JobID": str(number), "State": state, "UserName": f"user{dice.randrange(300)}", "Account": "lab",
            "Partition": "main", "QOS": "normal", "ArrayTaskID": "N/A", "Reason": "Priority", "PriorityLong": "4000",
            "NumNodes": str(nodes), "NumCPUs": str(64 * nodes), "tres-alloc": f"cpu={64 * nodes},node={nodes}",
            "tres-per-node": "N/A", "OverSubscribe": "NO", "TimeLimit": f"{limit_h // 24}-{limit_h % 24:02d}:00:00",
            "SubmitTime": str(submit_s), "EligibleTime": str(submit_s), "StartTime": str(start_s) if start_s else "N/A",
            "EndTime": str(start_s + limit_h * 3600) if start_s else "N/A", "Dependency": "(null)", "exit_code": "0",
            "NodeList": host, "Comment": "(null)", "Name": "job", **more,
        }  # fmt: skip
        rows.append(FIELD.join(cells[name] for name in FIELDS) + RECORD)

    for k, tag in enumerate(tags):
        began_s = now_s - dice.randrange(3_600, 47 * 3_600)
        mine = {"UserName": user}
        runs_on = {"Comment": tag.format(1), "Reason": "None", **mine}
        add(10 + 2 * k, "RUNNING", 1, 48, began_s - 60, began_s, f"n{k}", **runs_on)
        held = {"Comment": tag.format(2), "Reason": "Dependency", "Dependency": f"afterany:{10 + 2 * k}(unfulfilled)"}
        add(11 + 2 * k, "PENDING", 1, 48, began_s + 5, 0, "", **held, **mine, EligibleTime="N/A")
    host = chains
    for k in range(jobs - 2 * chains):
        nodes = dice.choice((1, 1, 1, 2, 4, 8))
        runs = host + nodes <= NODES
        began_s = now_s - dice.randrange(600, 20 * 3_600) if runs else 0
        names = ",".join(f"n{host + x}" for x in range(nodes)) if runs else ""
        add(
            100_000 + k,
            "RUNNING" if runs else "PENDING",
            nodes,
            dice.choice((2, 8, 24, 48)),
            now_s - 90_000 + k,
            began_s,
            names,
        )
        host += nodes if runs else 0
    return "\n".join(rows) + "\n"


def commands(folder: Path, tags: list[str], jobs: int, now_s: int) -> None:
    """Programs that stand for Slurm's."""
    from mirage.slurm.client import user_of_process

    dice = random.Random(1)
    (folder / "queue").write_text(queue_of(tags, user_of_process(), jobs, now_s, dice))
    nodes = "".join(
        f"n{k}\x1fmain*\x1fallocated\x1f64\x1f(null)\x1f2-00:00:00\x1fn/a\x1fEXCLUSIVE\x1f1\n" for k in range(NODES)
    )
    (folder / "nodes").write_text(nodes)
    ended = []
    for k in range(5_000):
        end_s = now_s - dice.randrange(60, 86_400)
        times = map(str, (end_s - 9_000, end_s - 9_000, end_s - 7_200, end_s))
        cells = [str(10**6 + k), "COMPLETED", f"user{k % 300}", "lab", "main", "normal", "1", "1440", *times]
        cells += ["0:0", "job", "", "sbatch"]
        ended.append(DELIMITER.join(cells))
    (folder / "accounts").write_text("\n".join(ended) + "\n")
    (folder / "config").write_text(
        "ClusterName = load\nSlurmctldHost[0] = head\nSlurmctldPort = 6817\n"
        "SchedulerType = sched/backfill\nPriorityType = priority/multifactor\n"
    )
    scripts = {
        "squeue": f"exec cat {folder}/queue",
        "sinfo": f"exec cat {folder}/nodes",
        "sacct": f"exec cat {folder}/accounts",
        "scontrol": f'case "$*" in *config*) exec cat {folder}/config;; esac',
        "sbatch": "echo 7",
        "scancel": ":",
    }
    (folder / "bin").mkdir()
    for name, text in scripts.items():
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)


def fill(url: str, chains: int, policy: str, now_s: int) -> list[str]:
    """A store with chains as the queue will show them; returns tags with a place for links."""
    from mirage.agent.model import ChainSpec, Link, LinkState
    from mirage.agent.store.sql_store import open_store
    from mirage.slurm.records import Submission

    store, tags = open_store(url), []
    environment = {f"VARIABLE_{k}": "x" * 40 for k in range(60)}
    for k in range(chains):
        spec = ChainSpec(Submission("job.sh", {"time": "2-0"}, environment=environment), policy=policy)
        chain = store.add_chain(f"chain{k}", spec, now_s - 200_000)
        known = {"attempted_s": now_s - 180_000, "submitted_s": now_s - 180_000}
        store.change_link(chain.id, 1, state=LinkState.QUEUED, job=10 + 2 * k, **known)
        store.add_link(Link(chain.id, 2, LinkState.HELD, job=11 + 2 * k, **known))
        tags.append(f"mirage:{chain.name}:{{}}:{store.identity().identity}.{chain.key}")
    store.close()
    return tags


def watched(url: str, cycles: int, policy: str) -> None:
    """The agent's own process: run a number of cycles, then print their cost."""
    import resource

    from mirage.agent.agent import Agent
    from mirage.agent.cycle.readiness import SystemShell
    from mirage.agent.policy_runner.child_process import ChildProcess
    from mirage.agent.store.sql_store import open_store
    from mirage.slurm.client import SlurmClient
    from mirage.slurm.runner import SystemRunner

    runner = SystemRunner()
    store = open_store(url)
    agent = Agent(store, SlurmClient(runner, clock=time.time), SystemShell(), clock=time.time, monotonic=time.monotonic,
                  holder="load", runner=ChildProcess())  # fmt: skip
    took, counts = [], []
    for _ in range(cycles):
        before, begun_s = sum(runner.count.values()), time.monotonic()
        agent.turns.due_s.clear()  # it is every chain's turn, however soon the next cycle comes
        cycle = agent.cycle()
        took.append(time.monotonic() - begun_s)
        released = runner.count["scontrol"]
        counts.append(sum(runner.count.values()) - before)
        assert not cycle.trouble, cycle.trouble
    agent.decider.runner.close()
    decided = sum(len(store.decisions(chain.id)) for chain in store.chains())
    print(json.dumps({
        "policy": policy, "cycles": cycles, "seconds_a_cycle_median": round(median(took), 2),
        "seconds_a_cycle_most": round(max(took), 2),
        "commands_a_poll": counts, "scontrol_runs": released, "decisions": decided,
        "put_off_last": cycle.open_questions,
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "peak_mib_of_children": round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, 1),
    }))  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--cycles", type=int, default=8)
    parser.add_argument("--policy", default="average,what-if", help="one after the other, each with a store of its own")
    options = parser.parse_args()
    for policy in options.policy.split(","):
        with tempfile.TemporaryDirectory(prefix="mirage-load-") as name:
            folder, now_s = Path(name), int(time.time())
            url = f"sqlite:///{folder}/store.db"
            commands(folder, fill(url, options.chains, policy, now_s), options.jobs, now_s)
            child = CHILD.format(url=url, cycles=options.cycles, policy=policy)
            path = f"{folder}/bin:{os.environ['PATH']}"
            environment = {**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parent)}
            subprocess.run([sys.executable, "-c", child], env=environment, check=True)


if __name__ == "__main__":
    main()
