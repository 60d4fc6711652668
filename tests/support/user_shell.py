"""A user's shell on a private cluster: ``mirage`` commands, an agent, and Slurm's output."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from mirage.agent.chain.tag import parse_tag
from mirage.cache_folder import cache_folder
from mirage.errors import SlurmUnreachable
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import QueuedJob
from mirage.slurm.runner import SystemRunner
from tests.support import dying_agent
from tests.support.forked_processes import Process, mirage, run_mirage, start
from tests.support.started_agents import AGENTS
from tests.support.waiting import until

SERVICE = """#!/bin/bash
#SBATCH --nodes=1 --output=/dev/null
trap 'echo "$MIRAGE_LINK checkpoint" >> service.log; exit 0' USR2
echo "$MIRAGE_LINK start $MIRAGE_PREVIOUS_JOB $1" >> service.log
while true; do sleep 600 & wait $!; done
"""


def installed_mirage(home: Path) -> dict[str, str]:
    """The environment of a user of this tree, with a home and our compiled kernels."""
    programs = home / "bin"
    programs.mkdir()
    (programs / "mirage").write_text(f'#!/bin/sh\nexec {sys.executable} -m mirage "$@"\n')
    (programs / "mirage").chmod(0o755)
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("MIRAGE_HOME", "MIRAGE_STORE"))
    }
    cache = {"XDG_CACHE_HOME": str(cache_folder().parent)}
    return {**inherited, **cache, "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home)}


class Shell:
    """A user's shell on a private cluster.

    Args:
        home: Where the agent keeps its things; by default a folder of its own.
    """

    def __init__(self, cluster: Any, folder: Path, home: Path | None = None, **variables: str) -> None:
        self.cluster, self.folder = cluster, folder
        folder.mkdir(exist_ok=True)
        own = {"MIRAGE_HOME": str(home or folder / "home"), "MIRAGE_STORE": "", **variables}
        self.environment = {**os.environ, **cluster.environment, **own}
        self.slurm = SlurmClient(SystemRunner(cluster.environment))
        self.script("serve.sh", SERVICE)
        self.stderr = ""

    def script(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def mirage(self, *words: str, status: int | None = 0, env: Mapping[str, str] | None = None) -> str:
        """Output of a command; ``status`` None stands for any exit status."""
        done = run_mirage(*words, env={**self.environment, **(env or {})}, cwd=self.folder)
        assert status in (None, done.returncode), f"mirage {' '.join(words)}: {done.stdout}{done.stderr}"
        self.stderr = done.stderr
        return done.stdout

    def submit(self, chain: str, *words: str) -> int:
        """A chain without an agent; the job of its first link."""
        output = self.mirage("submit", "--parsable", "--no-agent", "--chain", chain, *words)
        return int(output)

    def agent(self, *words: str, before: tuple[str, ...] = (), env: Mapping[str, str] | None = None) -> Any:
        words, environment = ("agent", "run", "--poll", "1s", *words), {**self.environment, **(env or {})}
        log = self.folder / "agent.log"
        if before:
            with log.open("ab") as file:
                program = [*before, sys.executable, "-m", "mirage", *words]
                AGENTS.append(subprocess.Popen(program, env=environment, cwd=self.folder, stderr=file))
        else:
            AGENTS.append(start(mirage, *words, env=environment, cwd=self.folder, out=log, err=log))
        return AGENTS[-1]

    def agent_with(self, point: str = "never", **settings: Any) -> Process:
        """An agent with settings that have no option, which dies at a point of ``dying_agent``."""
        url, log = f"sqlite:///{self.environment['MIRAGE_HOME']}/store.db", self.folder / "agent.log"
        words = (url, point, json.dumps(settings))
        AGENTS.append(start(dying_agent.main, *words, env=self.environment, cwd=self.folder, out=log, err=log))
        return AGENTS[-1]

    def found(self, chain: str) -> dict[int, list[QueuedJob]]:
        """Every job of our own that carries a tag of the chain of that name in our store, by link."""
        found: dict[int, list[QueuedJob]] = {}
        for job in self.slurm.observe().jobs:
            tag = parse_tag(job.comment)
            if tag is not None and tag.chain == chain and tag.store == self.store_identity():
                found.setdefault(tag.link, []).append(job)
        return found

    def store_identity(self) -> str:
        with closing(sqlite3.connect(f"{self.environment['MIRAGE_HOME']}/store.db")) as store:
            return str(store.execute("select identity from store").fetchone()[0])

    def jobs(self, chain: str) -> dict[int, list[JobState]]:
        return {number: [job.state for job in jobs] for number, jobs in self.found(chain).items()}

    def rows(self) -> dict[str, dict[str, Any]]:
        """Chains by name, as ``mirage chain list --json`` shows them."""
        return {row["chain"]: row for row in json.loads(self.mirage("chain", "list", "--json"))}

    def row(self, chain: str) -> dict[str, Any]:
        """One of the chains."""
        return self.rows()[chain]

    def kinds(self, chain: str) -> list[str]:
        """Kinds of what happened to a chain."""
        lines = self.mirage("chain", "log", chain, "--json").splitlines()
        return [json.loads(line)["kind"] for line in lines]

    def until(self, condition: Callable[[], bool], usual_s: float, what: str) -> None:
        log = self.folder / "agent.log"

        def answered() -> bool:
            try:
                return condition()
            except SlurmUnreachable:  # on a fast clock a busy machine's controller is late: asked again until the end
                return False

        shown = lambda: f"{what}\n{log.read_text()[-4000:] if log.exists() else ''}"  # noqa: E731
        until(answered, usual_s, shown, pause_s=0.5)

    def log(self) -> list[str]:
        path = self.folder / "service.log"
        return path.read_text().splitlines() if path.exists() else []
