"""docs/how-to/extending.md: each section is installed as a package, and runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.lab.commands.server import served_slurm
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.slurm.client import user_of_process
from mirage.trace.table import JobTable
from mirage.trace.write_trace import write_trace

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "extending.md").read_text(encoding="utf-8")
SECTIONS = {
    "policy": "A policy",
    "discipline": "A queue discipline",
    "trace reader": "A trace reader",
    "command": "A command",
    "GPU scheduler": "A scheduler of GPU clusters",
    "stage scheduler": "A scheduler of stages",
    "executor": "An executor",
    "wait model": "A wait model",
}
"""Kind → its heading."""


def section(kind: str) -> str:
    """The text of a section up to its first heading of a lower level."""
    text = re.split(rf"^## {SECTIONS[kind]}$", PAGE, maxsplit=1, flags=re.MULTILINE)[1]
    return re.split(r"^##", text, maxsplit=1, flags=re.MULTILINE)[0]


def fences(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def module_of(kind: str) -> str:
    return re.search(r"[Ii]n a file `(\w+)\.py`:", section(kind))[1]  # type: ignore[index]


def name_of(kind: str) -> str:
    """The name that the section's entry point declares."""
    (points,) = tomllib.loads(fences(section(kind), "toml")[0])["project"]["entry-points"].values()
    (name,) = points
    return str(name)


def lines_of(kind: str) -> list[str]:
    (block,) = fences(section(kind), "sh")
    return block.splitlines()


def run(environment: dict[str, str], folder: Path, *words: str, status: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr[-3000:]
    return done.stderr if status else done.stdout


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The eight packages, installed by pip in a folder of their own."""
    sources, site = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("site")
    build = next(block for block in fences(PAGE, "toml") if block.startswith("[build-system]"))
    for kind in SECTIONS:
        module, points = module_of(kind), fences(section(kind), "toml")[0]
        folder = sources / module
        folder.mkdir()
        (folder / f"{module}.py").write_text(fences(section(kind), "python")[0], encoding="utf-8")
        named = build.replace('"my-package"', f'"{module.replace("_", "-")}-package"')
        own = named.replace('"my_package"', f'"{module}"')
        (folder / "pyproject.toml").write_text(f"{own}\n{points}", encoding="utf-8")
    offline = ["--no-index", "--no-build-isolation", "--no-deps", "--quiet", "--disable-pip-version-check"]
    folders = [str(sources / module_of(kind)) for kind in SECTIONS]
    run(dict(os.environ), sources, "-m", "pip", "install", *offline, "--target", str(site), *folders)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page's commands name."""
    random, n = np.random.default_rng(3), 300
    run_s = random.integers(600, 8 * HOUR_S, n)
    table = JobTable.build(
        range(n),
        submit_s=np.sort(random.integers(0, 16 * DAY_S, n)),
        elapsed_s=run_s,
        limit_s=run_s * 2,
        nodes=random.choice([1, 2, 7, 16], n),
        gpus=random.choice([1, 2, 4, 8], n),
        user=random.choice(["ada", "bob", "cyd"], n, p=[0.6, 0.3, 0.1]).tolist(),
    )
    made = tmp_path_factory.mktemp("work")
    write_trace(table, made / "trace.csv")
    (made / "queue.log").write_text("#queue-log\n7 100 160 960 1800 2\n8 130 960 1000 600 1\n")
    (made / "train.sh").write_text("#!/bin/bash\n#SBATCH -N 2\n#SBATCH --time=4:00:00\ntrain\n")
    return made


def mirage(environment: dict[str, str], folder: Path, line: str, *more: str) -> str:
    assert shlex.split(line)[0] == "mirage"
    return run(environment, folder, "-m", "mirage", *shlex.split(line)[1:], *more)


@pytest.mark.parametrize("kind", SECTIONS)
def test_a_section_is_a_whole_package_of_few_lines(kind: str) -> None:
    code, check = fences(section(kind), "python")[0], fences(section(kind), "python")[-1]
    assert len(code.splitlines()) <= 40
    assert f"from {module_of(kind)} import" in check
    assert "check_" in check
    assert name_of(kind) in "\n".join(lines_of(kind)) or kind == "trace reader"


@pytest.mark.slow
@pytest.mark.parametrize("kind", SECTIONS)
def test_the_check_of_a_section_passes(kind: str, environment: dict[str, str], tmp_path: Path) -> None:
    run(environment, tmp_path, "-W", "error", "-c", fences(section(kind), "python")[-1])


@pytest.mark.slow
def test_the_policy_is_evaluated(environment: dict[str, str], folder: Path) -> None:
    (line,) = lines_of("policy")
    rows = json.loads(mirage(environment, folder, line, "--windows", "3", "--json"))["rows"]
    assert {row["policy"] for row in rows} == {"reactive", "night-owl"}


@pytest.mark.slow
def test_the_discipline_is_simulated(environment: dict[str, str], folder: Path) -> None:
    (line,) = lines_of("discipline")
    mine = json.loads(mirage(environment, folder, line, "--json"))
    fcfs = json.loads(mirage(environment, folder, line.replace("last-come", "fcfs"), "--json"))
    assert (mine["discipline"], mine["jobs"]) == ("last-come", 300)
    assert mine["mean_wait_s"] != fcfs["mean_wait_s"]


@pytest.mark.slow
def test_the_reader_reads_and_its_format_is_recognised(environment: dict[str, str], folder: Path) -> None:
    recognised, named = (mirage(environment, folder, line, "--json") for line in lines_of("trace reader"))
    assert recognised == named
    assert '"queue-log"' in named
    refusal = run(environment, folder, "-m", "mirage", "trace", "info", "queue.log", "--format", "queu-log", status=1)
    assert "Did you mean 'queue-log'?" in refusal


@pytest.mark.slow
def test_the_command_is_listed_and_runs(environment: dict[str, str], folder: Path) -> None:
    (line,) = lines_of("command")
    first, second = mirage(environment, folder, line).splitlines()
    assert (first.split("\t")[0], second.split("\t")[0]) == ("ada", "bob")
    assert "busiest" in mirage(environment, folder, "mirage --help").partition("Commands of installed packages:")[2]


@pytest.mark.slow
def test_the_gpu_scheduler_is_run_and_its_parameter_counts(environment: dict[str, str], folder: Path) -> None:
    (line,) = lines_of("GPU scheduler")
    wide = line.replace("most_gpus=4", "most_gpus=8")
    row = json.loads(mirage(environment, folder, wide, "--json"))["row"]
    assert row["scheduler"].startswith("narrow-first")
    stuck = run(environment, folder, "-m", "mirage", *shlex.split(line)[1:], status=1)
    assert "starts none of them" in stuck, "jobs of eight GPUs wait under a scheduler that takes four at most"


@pytest.mark.slow
def test_the_stage_scheduler_is_compared(environment: dict[str, str], folder: Path) -> None:
    (line,) = lines_of("stage scheduler")
    rows = json.loads(mirage(environment, folder, line, "--json"))["rows"]
    assert {row["policy"] for row in rows} == {"fair", "latest-job:4"}


@pytest.mark.slow
def test_the_executor_gives_the_results_of_local_processes(environment: dict[str, str], folder: Path) -> None:
    (line,) = lines_of("executor")
    mine = json.loads(mirage(environment, folder, line, "--json"))
    local = json.loads(mirage(environment, folder, line.replace("threads", "local"), "--json"))
    assert mine["rows"] == local["rows"]
    shown = mirage(environment, folder, "mirage evaluate --help")
    assert "[local|slurm|hyperqueue|threads]" in "".join(shown.split())
    refused = line.replace("--workers 2", "--array-jobs 3")
    complaint = run(environment, folder, "-m", "mirage", *shlex.split(refused)[1:], status=2)
    assert "--executor threads takes no --array-jobs" in " ".join(complaint.split())


@pytest.mark.slow
def test_the_wait_model_predicts(environment: dict[str, str], folder: Path) -> None:
    now_s, n = int(time.time()), 60
    random = np.random.default_rng(4)
    run_s = random.integers(HOUR_S, 6 * HOUR_S, n)
    table = JobTable.build(
        range(1, n + 1),
        submit_s=now_s - 2 * DAY_S + np.sort(random.integers(0, 2 * DAY_S - 60, n)),
        elapsed_s=run_s,
        limit_s=[8 * HOUR_S] * n,
        nodes=random.choice([1, 3], n),
    )
    cluster = Cluster.pool(4)
    slurm = VirtualSlurm(Simulation(cluster, workload(table, cluster), "slurm"), user=user_of_process())
    slurm.sleep(now_s - int(table.submit_s[0]))
    (line,) = lines_of("wait model")
    with served_slurm(slurm) as served:
        home = {"PATH": served.environment["PATH"], "MIRAGE_HOME": str(folder / "home")}
        with_json = line.replace("predict ", "predict --json ")  # what follows the script is its own
        answer = json.loads(mirage({**environment, **home}, folder, with_json))["by_accounts"]
    assert answer["model"] == "recent:200"
    assert 0 <= answer["80%"][0] <= answer["median"] <= answer["80%"][1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "name"),
    [("evaluate", "night-owl"), ("simulate", "last-come"), ("trace info", "queue-log"), ("evaluate", "threads"),
     ("schedule run", "narrow-first"), ("dag compare", "latest-job"), ("predict", "recent")],
)  # fmt: skip
def test_help_lists_the_plug_in(command: str, name: str, environment: dict[str, str], folder: Path) -> None:
    shown = mirage(environment, folder, f"mirage {command} --help")
    assert name in re.sub(r"-\s+", "-", shown)
