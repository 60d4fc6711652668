"""Runs commands with nothing but the base: ``python -m tests.support.base_only FOLDER``.

As on a login node, modules of other installed packages cannot be found. The commands print to standard output, and a
failure ends the process.
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Sequence
from contextlib import closing
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
BEGIN_S = 1_790_000_000


def base_distributions() -> set[str]:
    """Names of the base dependencies, and of everything that they need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = set()
    waiting = [_name(line) for line in project["dependencies"]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [_name(line) for line in requires(name) or () if "extra ==" not in line]
            found -= {other for other in found if other not in _INSTALLED}
            waiting = [other for other in waiting if other in _INSTALLED]
    return found


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[ ;<>=!~\[(]", requirement)[0]).lower()


_PACKAGES = {module: {_name(one) for one in names} for module, names in packages_distributions().items()}
_INSTALLED = set().union(*_PACKAGES.values())


class BaseOnly:
    """A finder of modules that finds those of Python, Mirage, the tests and the base."""

    def __init__(self, finder: Any, found: set[str]) -> None:
        self.finder, self.found = finder, found

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module; None for those of other packages."""
        top = name.partition(".")[0]
        if not _PACKAGES.get(top, self.found) & self.found and top not in ("mirage", "tests"):
            return None
        found: ModuleSpec | None = self.finder.find_spec(name, path, target)
        return found


def main(folder: Path) -> None:
    """Runs the main commands on a simulated Slurm."""
    base = base_distributions()
    sys.meta_path[:] = [BaseOnly(finder, base) for finder in sys.meta_path]
    for name in [name for name in sys.modules if not _PACKAGES.get(name.partition(".")[0], base) & base]:
        del sys.modules[name]  # what site's .pth files have imported

    from mirage.agent.agent import Agent
    from mirage.agent.cycle.readiness import SystemShell
    from mirage.agent.settings import AgentSettings
    from mirage.agent.store.sql_store import open_store
    from mirage.cli import cli_context
    from mirage.cli import main as mirage
    from mirage.duration import DAY_S, HOUR_S
    from mirage.lab.commands.server import served_slurm
    from mirage.lab.virtual.virtual_slurm import VirtualSlurm
    from mirage.sim.cluster import Cluster
    from mirage.sim.simulation import Simulation
    from mirage.sim.workload import workload
    from mirage.slurm.client import SlurmClient, user_of_process
    from mirage.slurm.runner import SystemRunner
    from mirage.trace.table import JobTable

    def typed(*words: str, status: int = 0) -> None:
        print("$ mirage", *words, flush=True)
        ended = mirage(list(words))
        if ended != status:
            sys.exit(f"mirage {' '.join(words)} ended with {ended}, not {status}")

    os.environ["MIRAGE_HOME"] = str(folder / "home")
    os.chdir(folder)
    Path("serve.sh").write_text("#!/bin/bash\n#SBATCH -N 1\n#SBATCH --time=4:00:00\nserve\n")
    cluster, hour = Cluster.pool(4), range(1, 41)
    others = JobTable.build(
        hour,
        submit_s=[BEGIN_S + 1_800 * k for k in hour],
        elapsed_s=[3 * HOUR_S] * 40,
        limit_s=[4 * HOUR_S] * 40,
        nodes=[2] * 40,
    )
    slurm = VirtualSlurm(Simulation(cluster, workload(others, cluster), "slurm"), user=user_of_process())
    slurm.sleep(BEGIN_S + HOUR_S - slurm.clock())
    cli_context.clock = slurm.clock
    with served_slurm(slurm) as served:
        os.environ["PATH"] = served.environment["PATH"]
        typed("doctor")
        typed(
            "submit",
            "--chain",
            "serve",
            "--policy",
            "lead:1",
            "--links",
            "2",
            "-t",
            "2:00:00",
            "--no-agent",
            "serve.sh",
        )
        settings = AgentSettings(poll_s=600, busy_poll_s=300, lease_s=DAY_S)
        with closing(open_store(cli_context.home().store_url)) as store:
            client = SlurmClient(SystemRunner(), clock=slurm.clock)
            agent = Agent(
                store, client, SystemShell(), clock=slurm.clock, monotonic=slurm.clock, holder="h", settings=settings
            )
            end_s = slurm.clock() + 12 * HOUR_S
            agent.run(slurm.sleep, lambda: slurm.clock() >= end_s)
        for words in (["list"], ["show", "serve"], ["explain", "serve"], ["log", "serve"]):
            typed("chain", *words)
        typed("agent", "status", status=1)
        typed("endpoint", "--help")
        typed("predict", "-N", "1", "-t", "1:00:00")
        typed("agent", "run", "--metrics-port", "9190", status=1)
    for command in ("lab", "demo", "train", "schedule", "dag"):
        typed(command, "--help")
    typed("trace", "generate", "--days", "3", "--nodes", "8", "-o", "jobs.csv")
    typed("simulate", "jobs.csv", "--nodes", "8")
    typed("trace", "convert", "jobs.csv", "jobs.parquet", status=1)

    import mirage as package
    from mirage.errors import ConfigurationError

    for name in ("ChainEnv", "DagEnv"):
        try:
            getattr(package, name)
        except ConfigurationError as error:
            print(f"{name}: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
