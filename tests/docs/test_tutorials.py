"""The tutorials, typed from the first command to the last, and what they promise."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.slurm_packages import ADVICE, missing
from tests.support.documents import DOCS
from tests.support.user_shell import installed_mirage

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user of this tree, with a home of its own."""
    home = tmp_path_factory.mktemp("home")  # short: the path of a lab holds those of Unix sockets
    (home / "work").mkdir()
    return installed_mirage(home)


@pytest.fixture
def slurm(shell: dict[str, str]) -> dict[str, str]:
    if lacking := missing(LabSpec(directory=Path(shell["HOME"]))):
        pytest.skip(f"a real Slurm needs {', '.join(lacking)}; {ADVICE}")
    return shell


def typed(name: str, shell: dict[str, str], timeout_s: float) -> str:
    """What a shell prints when every block of a tutorial is typed into it."""
    text = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    folder = Path(shell["HOME"]) / "work"
    try:
        done = subprocess.run(
            ["bash", "-c", "set -e\n" + "\n".join(blocks)],
            env=shell, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout
    finally:
        if (folder / "mirage-lab").exists():
            subprocess.run(["mirage", "lab", "down", "--purge"], env=shell, cwd=folder, check=False)


@pytest.mark.real_slurm
def test_a_first_chain(slurm: dict[str, str]) -> None:
    printed = typed("first-chain", slurm, 1200)
    log = (Path(slurm["HOME"]) / "work" / "train.log").read_text()
    begun = [int(step) for step in re.findall(r"begins at step (\d+)", log)]
    saved = [int(step) for step in re.findall(r"saved at step (\d+)", log)]
    assert begun == [0, *saved]
    assert 2 <= len(saved) <= 4
    assert log.endswith("finished\n")
    assert "Submitted batch job 1\n" in printed
    assert re.search(r"^my-run +(active|done)", printed, re.MULTILINE)


@pytest.mark.real_slurm
def test_a_service(slurm: dict[str, str]) -> None:
    for program in ("nginx", "curl"):
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None:
            pytest.skip(f"the tutorial needs {program}")
    printed = typed("serve-a-model", {**slurm, "PATH": f"{slurm['PATH']}:/usr/sbin"}, 1200)
    answers = (Path(slurm["HOME"]) / "work" / "answers.log").read_text().splitlines()
    assert set(answers) == {"link 1", "link 2"}
    assert len(answers) > 20
    assert re.search(r"^ +\d+ link 1$", printed, re.MULTILINE)


def test_from_accounting_to_a_table(shell: dict[str, str]) -> None:
    printed = typed("from-sacct-to-a-table", shell, 1200)
    assert "76 nodes" in printed
    assert all(re.search(rf"{policy} ", printed) for policy in ("reactive", "lead:4", "average", "what-if", "oracle"))
    folder = Path(shell["HOME"]) / "work"
    assert "oracle" in (folder / "evaluation.html").read_text()
    assert list((folder / "windows").iterdir())
