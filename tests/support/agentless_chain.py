"""A chain without an agent on a real cluster, and the cluster's records of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from mirage.agentless.link_script import AgentlessSpec, link_script
from mirage.agentless.shell_tree import shell_tree_of

SOON = """\
tree: 1
features:
    remaining: duration
answers: wait, submit

if remaining < {lead}s:
    submit
else:
    wait
"""

SERVICE = """#!/bin/bash
trap 'echo "$MIRAGE_LINK saved" >> "{folder}/service.log"; exit 0' USR2
echo "$MIRAGE_LINK up $*" >> "{folder}/service.log"
sleep {seconds} & wait $!
echo "$MIRAGE_LINK down" >> "{folder}/service.log"
exit {status}
"""


class AgentlessChain:
    """One chain: its folder, its jobs by link, and its living processes.

    A tree, if given, decides instead of the lead.
    """

    def __init__(
        self, cluster: Any, folder: Path, *, lead_s: int = 86_400, tree: str = "", seconds: int = 600, status: int = 0,
        **spec: Any,
    ) -> None:  # fmt: skip
        self.cluster, self.folder = cluster, folder
        self.environment = {**os.environ, **cluster.environment}
        rules = {"every_s": 2, "least_s": 0, "grace_s": 5, "until_done": False, **spec}
        options = {"time": "5", "nodes": "1", "exclusive": None, "output": f"{folder}/%j.out"}
        self.spec = AgentlessSpec(
            "chain", folder.name[-8:], str(folder), "job.sh", options, ("one", "two words"), **rules
        )
        decides = shell_tree_of(tree or SOON.format(lead=lead_s), "tree")
        self._write("job.sh", SERVICE.format(folder=folder, seconds=seconds, status=status))
        self._write("link.sh", link_script(self.spec, decides))
        self._sbatch = ("sbatch", "--exclusive", "-N1", "-t5", f"-o{folder}/%j.out", f"{folder}/link.sh")

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o700)

    def start(self, *options: str) -> None:
        """Submits the first link."""
        words = [self._sbatch[0], *options, *self._sbatch[1:], "1", "0", *self.spec.arguments]
        subprocess.run(words, env=self.environment, cwd=self.folder, check=True, capture_output=True)

    def log(self) -> str:
        """The chain's log."""
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def events(self, word: str) -> list[int]:
        """Numbers of the links that have written a word, in order."""
        path = self.folder / "service.log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [int(line.split()[0]) for line in lines if line.split()[1] == word]

    def jobs(self) -> dict[int, list[tuple[int, str]]]:
        """Link → number and state of all its jobs, from the second link on."""
        found: dict[int, list[tuple[int, str]]] = {}
        for line in self.cluster.run("squeue", "-h", "-t", "all", "-o", "%i %T %k").splitlines():
            job, state, *comment = line.split()
            if comment and comment[-1].startswith(f"agentless:chain:{self.spec.key}:"):
                found.setdefault(int(comment[-1].rpartition(":")[2]), []).append((int(job), state))
        return found

    def job_of(self, link: int) -> int:
        """The job that runs, or ran, a link."""
        return int((self.folder / f"link.{link}").read_text().split()[0].partition("=")[2])

    def alive(self) -> list[str]:
        """Jobs of the chain that have not ended."""
        shown: str = self.cluster.run("squeue", "-h", "-o", "%i %T")
        return shown.splitlines()

    def shells(self, link: int) -> list[int]:
        """Process ids of a link's batch shell and its subshells, the batch shell first."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdecimal() and self._is_shell((entry / "cmdline").read_bytes(), entry, link):
                    found.append(int(entry.name))
        return sorted(found)

    def _is_shell(self, command: bytes, entry: Path, link: int) -> bool:
        words = command.decode(errors="replace").split("\0")
        if "slurm_script" not in " ".join(words[:2]) or words[2:4][:1] != [str(link)]:
            return False
        return f"SLURM_JOB_ID={self.job_of(link)}\0" in (entry / "environ").read_text(errors="replace")

    def kill(self, pid: int) -> None:
        """Kills one process of the chain."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def violations(self) -> list[str]:
        """What must never be: a link's script twice, or a number left out."""
        up = self.events("up")
        wrong = [f"link {link} ran {count} times" for link, count in Counter(up).items() if count > 1]
        if sorted(set(up)) != list(range(1, len(set(up)) + 1)):
            wrong.append(f"links {up} ran")
        return wrong
