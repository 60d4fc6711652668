"""Script, environment and processes of a job, from the printed text of Slurm 22.05.8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.slurm.job_reader import JobReader, submitted_environment
from mirage.slurm.runner import Completed

RULE = "-" * 80
ENVIRONMENT = (
    f"Environment used for 1 (must be batch to display)\n{RULE}\nSLURM_CONF=/etc/slurm.conf\n"
    "COLOUR=green\nand blue=2 x\n"
    "SLURM_NTASKS=2\nEMPTY=\nSLURM_UMASK=0022\n\n"
)
SCRIPT = f"Batch Script for 1\n{RULE}\n#!/bin/sh\nsleep 200\n\n"
STATUS = "Name:\tpython3\nUmask:\t0077\nPid:\t{}\nPPid:\t{}\nSigIgn:\t0000000000001000\nSigCgt:\t{}\n"


class Typed:
    """Runs no command, and prints what was recorded for its first words."""

    def __init__(self, **printed: str | Callable[[Sequence[str]], str]) -> None:
        self.printed, self.environments, self.lines = printed, list[Mapping[str, str]](), list[Sequence[str]]()

    def run(self, argv: Sequence[str], *, environment: Mapping[str, str] | None = None, **_: Any) -> Completed:
        self.environments.append(environment or {})
        self.lines.append(argv)
        for key, text in self.printed.items():
            if key.replace("_", "-") in " ".join(argv):
                return Completed(0, text if isinstance(text, str) else text(argv), "")
        return Completed(1, "", "error: not for you")


def test_a_job_that_slurm_does_not_know_is_named_with_the_remedy() -> None:
    class Slurm(Typed):
        def run(self, argv: Sequence[str], **_: Any) -> Completed:
            return Completed(1, "", "slurm_load_jobs error: Invalid job id specified\n")

    with pytest.raises(
        SlurmRefused, match=r"Slurm knows no job 17 \(any more\); squeue --me lists yours: slurm_load_jobs"
    ):
        JobReader(Slurm(), {}).details(17)
    with pytest.raises(SlurmRefused, match="scontrol --all show failed with status 1: error: not for you"):
        JobReader(Typed(), {}).details(17)


def test_what_accounting_stores() -> None:
    runner = Typed(env_vars=ENVIRONMENT, batch_script=SCRIPT, allocations="sbatch -n 2 job.sh\n")
    stored = JobReader(runner, {}).stored(1)
    assert stored.script == "#!/bin/sh\nsleep 200\n\n"
    assert stored.submit_line == "sbatch -n 2 job.sh"
    assert stored.environment == {
        "SLURM_CONF": "/etc/slurm.conf", "COLOUR": "green\nand blue=2 x", "SLURM_NTASKS": "2", "EMPTY": "",
        "SLURM_UMASK": "0022",
    }  # fmt: skip
    assert JobReader(Typed(), {}).stored(1).environment == {}, "a site without accounting"


def test_a_site_that_stores_only_the_command_line() -> None:
    none = f"Batch Script for 1\n{RULE}\nNONE\n"
    stored = JobReader(Typed(allocations="sbatch job.sh\n", batch_script=none), {}).stored(1)
    assert (stored.script, stored.environment, stored.submit_line) == ("", {}, "sbatch job.sh")


def test_the_processes_of_a_job() -> None:
    def printed(argv: Sequence[str]) -> str:
        mark = argv[-1].split("printf '\\n")[1].split("status")[0]
        shell = f"\n{mark}status\n{STATUS.format(70, 1, '0000000000010002')}"
        shell += f"\n{mark}command\n/bin/bash\0/var/spool/job00003/slurm_script\0a b\0--c\0"
        shell += f"\n{mark}environ\nA=1\nB\0SLURM_JOB_ID=3\0"
        step = f"\n{mark}status\n{STATUS.format(71, 70, '0000000000000200')}"
        step += f"\n{mark}command\npython3\0t.py\0\n{mark}environ\nSLURM_STEP_ID=0\0A=\0"
        return f"{shell}{step}\n{mark}end\n"

    runner = Typed(srun=printed)
    caller = {"PATH": "/bin", "SLURM_CONF": "/c", "SLURM_JOB_ID": "9", "SBATCH_QOS": "x", "SRUN_DEBUG": "1"}
    shell, step = JobReader(runner, caller).processes(3, "n1", "alpha")
    assert (shell.pid, shell.parent, shell.arguments, shell.umask) == (70, 1, ("a b", "--c"), "0077")
    assert (shell.is_batch_shell, shell.in_step, shell.environment["A"]) == (True, False, "1\nB")
    assert (step.is_batch_shell, step.in_step, step.environment["A"]) == (False, True, "")
    assert (shell.catches, step.catches, step.ignores) == ({"INT"}, {"USR1"}, frozenset()), "bit 16 is CHLD"
    assert set(runner.environments[0]) == {"PATH", "SLURM_CONF", "MIRAGE_READS_JOB"}, "no job of ours is the wrong one"
    assert {"--jobid=3", "--overlap", "--nodelist=n1"} <= set(runner.lines[0])
    with pytest.raises(SlurmRefused, match="srun --jobid=3 --overlap failed with status 1"):
        JobReader(Typed(), {}).processes(3, "n1", "alpha")


def test_a_script_is_read_byte_by_byte() -> None:
    def written(argv: Sequence[str]) -> str:
        Path(argv[-1]).write_bytes(b"#!/bin/sh\n# caf\xe9\n")
        return ""

    assert JobReader(Typed(write=written), {}).batch_script(1) == b"#!/bin/sh\n# caf\xe9\n"
    with pytest.raises(SlurmRefused, match="not for you"):
        JobReader(Typed(), {}).batch_script(1)


def test_variables_that_slurmd_sets_for_each_job_are_no_part_of_its_submission() -> None:
    job = {"PATH": "/bin", "SLURM_CONF": "/c", "SLURM_JOB_ID": "3", "HOSTNAME": "n1", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert submitted_environment(job) == {"PATH": "/bin", "SLURM_CONF": "/c"}


def test_a_silent_accounting_is_no_error() -> None:
    class Silent(Typed):
        def run(self, argv: Sequence[str], **_: Any) -> Completed:
            raise SlurmUnreachable("sacct had no answer")

    assert JobReader(Silent(), {}).stored(1).submit_line == ""
