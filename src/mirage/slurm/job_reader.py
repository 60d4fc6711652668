"""Script, environment and processes of one job, from the sources that show them.

A running job is read by a step of its own (``srun --jobid --overlap``) on the node of its batch script: it reads
``/proc``, changes nothing, and appears in accounting as one more step.
"""

from __future__ import annotations

import re
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mirage.errors import SlurmError, SlurmRefused
from mirage.slurm.runner import Runner
from mirage.slurm.text.job_details import JobDetails, read_job_details
from mirage.slurm_words.numbers import count_of

STEP_S = 40.0
"""Time in which the step inside a job has to answer."""

SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "USR1": 10, "USR2": 12, "TERM": 15}
"""Signals that a process may handle, with their numbers on Linux."""

_WORDS = """
    ENVIRONMENT HOSTNAME CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL ROCR_VISIBLE_DEVICES ZE_AFFINITY_MASK
"""
_SET_BY_SLURM = frozenset(_WORDS.split())
_OF_SBATCH = ("SLURM_CONF", "SLURM_UMASK", "SLURM_CLUSTERS")
"""Variables of Slurm that sbatch itself reads; slurmd sets the others for each job."""

_READS_PROC = r"""
for p in /proc/[0-9]*; do
  e=$(tr '\0' '\n' < $p/environ) || continue
  e=$(printf '%s\n' "$e" | grep -E '^(SLURM_JOB_ID|SLURM_CLUSTER_NAME|MIRAGE_READS_JOB)=')
  case "
$e
" in *"
MIRAGE_READS_JOB=@MARK@
"*) continue ;; *"
SLURM_JOB_ID=$SLURM_JOB_ID
"*) ;; *) continue ;; esac
  case "
$e
" in *"
SLURM_CLUSTER_NAME=@CLUSTER@
"*) ;; *"
SLURM_CLUSTER_NAME="*) continue ;; esac
  printf '\n@MARK@status\n'; cat $p/status
  printf '\n@MARK@command\n'; cat $p/cmdline
  printf '\n@MARK@environ\n'; cat $p/environ
done 2> /dev/null
printf '\n@MARK@end\n'
"""
"""Prints every process of the job on this node; the step's own processes are left out."""


@dataclass(frozen=True, slots=True)
class JobProcess:
    """A process of a running job.

    Attributes:
        words: Its command line.
        environment: Its environment at its start.
        catches: Signals for which it has a handler.
        ignores: Signals that it ignores.
        umask: Its umask in octal; empty where the kernel does not show it.
    """

    pid: int
    parent: int
    words: tuple[str, ...]
    environment: Mapping[str, str]
    catches: frozenset[str] = frozenset()
    ignores: frozenset[str] = frozenset()
    umask: str = ""

    @property
    def is_batch_shell(self) -> bool:
        """Whether it runs the batch script of the job."""
        return any(word.endswith("/slurm_script") for word in self.words[:3])

    @property
    def in_step(self) -> bool:
        """Whether srun started it, in a step of its own."""
        return "SLURM_STEP_ID" in self.environment and self.environment["SLURM_STEP_ID"].isdecimal()

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the batch script, of the process that runs it."""
        place = next((k for k, word in enumerate(self.words) if word.endswith("/slurm_script")), len(self.words))
        return self.words[place + 1 :]


@dataclass(frozen=True, slots=True)
class StoredSubmission:
    """What accounting stores of a submission; a part that a site does not store is empty."""

    script: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    submit_line: str = ""


class JobReader:
    """A reader of single jobs; it changes nothing.

    Args:
        runner: Runs Slurm's commands.
        environment: The environment of this process, for the step inside a job.
    """

    def __init__(self, runner: Runner, environment: Mapping[str, str]) -> None:
        self.runner, self.environment = runner, environment

    def details(self, job: int) -> JobDetails:
        """The description of a job.

        Raises:
            SlurmRefused: The controller does not know it.
            ConfigurationError: It is an array or a heterogeneous job.
        """
        try:
            return read_job_details(self._printed("scontrol", "--all", "show", "job", str(job)))
        except SlurmRefused as refused:
            if "Invalid job id" not in refused.stderr:
                raise
            raise SlurmRefused(
                f"Slurm knows no job {job} (any more); squeue --me lists yours", refused.stderr
            ) from refused

    def batch_script(self, job: int) -> bytes:
        """The batch script as the controller has it.

        Raises:
            SlurmRefused: It does not show it.
        """
        with tempfile.TemporaryDirectory(prefix="mirage-adopt-") as folder:
            path = Path(folder) / "script"  # a file has all bytes, which printed text may not have
            self._printed("scontrol", "write", "batch_script", str(job), str(path))
            try:
                return path.read_bytes()
            except OSError as error:
                raise SlurmRefused(f"scontrol write batch_script {job} wrote nothing: {error.strerror}") from error

    def stored(self, job: int) -> StoredSubmission:
        """What accounting stores of a job's submission; empty where it shows nothing."""
        number = f"--jobs={job}"
        line = self._or_nothing("sacct", "--allocations", "--noheader", "--parsable2", "--format=SubmitLine", number)
        if not line.strip():
            return StoredSubmission()
        script = _body(self._or_nothing("sacct", "--batch-script", number))
        variables = _body(self._or_nothing("sacct", "--env-vars", number))
        return StoredSubmission(
            script if script.startswith("#!") else "", _variables(variables.splitlines()), line.splitlines()[0]
        )

    def processes(self, job: int, host: str, cluster: str) -> tuple[JobProcess, ...]:
        """The processes of a running job on one of its nodes.

        Args:
            host: The node; that of its batch script.
            cluster: Slurm's name of the cluster: a node may run jobs of another one with the same number.

        Raises:
            SlurmError: No step can be started in the job.
        """
        mark = f"mirage-{secrets.token_hex(6)}-"
        environment = {
            name: value for name, value in self.environment.items()
            if not name.startswith(("SLURM_", "SBATCH_", "SRUN_")) or name in _OF_SBATCH
        }  # fmt: skip
        size = ("--nodes=1", "--ntasks=1", "--mem=0", f"--nodelist={host}", "--chdir=/", "--job-name=mirage-adopt")
        program = _READS_PROC.replace("@MARK@", mark).replace("@CLUSTER@", cluster)
        done = self.runner.run(
            ["srun", f"--jobid={job}", "--overlap", *size, "sh", "-c", program],
            timeout_s=STEP_S,
            environment={**environment, "MIRAGE_READS_JOB": mark},
        )
        if done.status or f"{mark}end" not in done.stdout:
            raise SlurmRefused(f"srun --jobid={job} --overlap failed with status {done.status}", done.stderr)
        return tuple(_processes(done.stdout, mark))

    def _printed(self, *argv: str) -> str:
        done = self.runner.run(argv)
        if done.status:
            raise SlurmRefused(f"{' '.join(argv[:3])} failed with status {done.status}", done.stderr or done.stdout)
        return done.stdout

    def _or_nothing(self, *argv: str) -> str:
        try:
            done = self.runner.run(argv)
        except SlurmError:
            return ""
        return "" if done.status else done.stdout


def batch_process(processes: Sequence[JobProcess]) -> JobProcess | None:
    """The process of the batch script: its shell, or a program in its place, by ``exec``."""
    known = {process.pid for process in processes}
    first = [process for process in processes if not process.in_step and process.parent not in known]
    shells = [process for process in processes if process.is_batch_shell]
    return shells[0] if shells else first[0] if len(first) == 1 else None


def submitted_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a submission, from those of the job's batch script.

    Those that slurmd sets for each job are left out.
    """
    return {
        name: value for name, value in variables.items()
        if name not in _SET_BY_SLURM and (not name.startswith("SLURM_") or name in _OF_SBATCH)
    }  # fmt: skip


def _body(printed: str) -> str:
    """The text after the heading of ``sacct --batch-script`` and ``--env-vars``."""
    heading, rule, text = printed.partition("\n" + "-" * 80 + "\n")
    return text if rule and heading else ""


def _variables(lines: list[str]) -> dict[str, str]:
    """Variables, one a line; a line that begins none continues the value before it."""
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        word, equals, value = line.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|BASH_FUNC_\S+%%", word):
            name = word
            found[name] = value
        elif name:
            found[name] += "\n" + line
    if name:
        found[name] = found[name].rstrip("\n")
    return found


def _processes(printed: str, mark: str) -> list[JobProcess]:
    parts = re.split(rf"\n{mark}(\w+)\n", printed)
    found = []
    for k in range(1, len(parts) - 4, 2):
        if parts[k] == "status":
            status = dict(re.findall(r"^(\w+):\s+(.*)$", parts[k + 1], re.MULTILINE))
            words = tuple(parts[k + 3].split("\0")[:-1])
            pairs = (entry.partition("=") for entry in parts[k + 5].split("\0") if entry)
            found.append(
                JobProcess(
                    count_of(status.get("Pid", "0")),
                    count_of(status.get("PPid", "0")),
                    words,
                    {name: value for name, _, value in pairs},
                    _names(status.get("SigCgt", "0")),
                    _names(status.get("SigIgn", "0")),
                    status.get("Umask", ""),
                )
            )
    return found


def _names(mask: str) -> frozenset[str]:
    return frozenset(name for name, number in SIGNALS.items() if int(mask, 16) >> (number - 1) & 1)
