"""Slurm through its own client commands, in any version since 21.08.

There is no library to match, and no rights are needed.
"""

from __future__ import annotations

import logging
import os
import pwd
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mirage.errors import (
    ConfigurationError,
    InvalidOptions,
    RequestNotSent,
    SlurmRefused,
    SlurmUnreachable,
    one_line,
    quantity,
    shown,
)
from mirage.slurm.backend import cluster_of
from mirage.slurm.records import (
    AccountedJob,
    Machine,
    Queue,
    QueuedJob,
    SkippedRecords,
    SlurmReservation,
    Submission,
)
from mirage.slurm.runner import Completed, Runner, SystemRunner, check_configured
from mirage.slurm.sbatch_options import from_environment, to_argv
from mirage.slurm.text import machine as machine_text
from mirage.slurm.text import sacct as sacct_text
from mirage.slurm.text import squeue as squeue_text
from mirage.slurm.text.batch_script import directives
from mirage.slurm.text.reservations import RESERVATIONS_COMMAND, read_reservations

log = logging.getLogger("mirage.slurm")

_UNANSWERED = re.compile(
    r"unable to contact|socket timed out|connection (refused|timed out|reset)|zero bytes|temporarily unable"
    r"|slurmdbd.*(down|refused)|communication|send/recv|not responding|try again|in standby|protocol authentication"
    r"|resource temporarily unavailable|munge",
    re.IGNORECASE,
)
"""What Slurm's commands print without an answer, from slurm_errno and the sources of the clients."""

_NOT_PARSED = 255
"""Exit status of sbatch for options that it cannot parse; 1 where slurmctld refuses (22.05.8)."""

_NEVER_SENT = re.compile(r"unable to contact slurm controller \(connect failure\)", re.IGNORECASE)
"""sbatch sent nothing to the controller and so submitted nothing; it gives up after one MessageTimeout."""

_QOS_COLUMNS = (
    "Name", "Priority", "Preempt", "GrpJobs", "GrpTRES", "GrpJobsAccrue", "MaxJobsPU", "MaxTRESPU", "MaxJobsAccruePU",
    "MaxJobsPA", "MaxTRESPA", "MaxJobsAccruePA",
)  # fmt: skip
"""Columns of QOS: by default sacctmgr omits those on the number of jobs that gain age (22.05.8)."""

_ASSOCIATION_COLUMNS = ("Cluster", "Account", "ParentName", "User", "Partition", "GrpJobsAccrue", "MaxJobsAccrue")

_LimitColumns = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
"""Where sacctmgr shows limits: entity, the columns that name it, those of the limits."""

_ACCRUAL: _LimitColumns = (
    ("qos", ("Name",), ("GrpJobsAccrue", "MaxJobsAccruePA", "MaxJobsAccruePU")),
    ("assoc", ("Account", "User"), ("GrpJobsAccrue", "MaxJobsAccrue")),
)
_SUBMISSIONS: _LimitColumns = (
    ("qos", ("Name",), ("MaxSubmitJobsPU",)),
    ("assoc", ("Account", "User"), ("MaxSubmitJobs",)),
)

GONE = re.compile(r"invalid job id|already (completing or )?completed|job/step already|not running", re.IGNORECASE)


class SlurmClient:
    """A cluster accessed by Slurm's commands: sbatch, squeue, sacct, scancel, scontrol, sinfo.

    Args:
        runner: Runs the commands.
        clock: The cluster's time, for snapshots of the queue.
        everybody: Whether to query accounting for all users' jobs; sites may show only a user's own.
        user: User of the jobs submitted here; by default the user of this process.

    Attributes:
        remarks: What sbatch printed besides the id of the job last submitted: warnings, messages of the site.
        one_job: The query of a single job, for a probe.
    """

    one_job: Sequence[str] = ("squeue", "--noheader", "--jobs=1", "--format=%i")

    def __init__(
        self,
        runner: Runner | None = None,
        *,
        clock: Callable[[], float] | None = None,
        everybody: bool = True,
        user: str = "",
    ) -> None:
        self.runner = runner or SystemRunner()
        self._user = user or user_of_process()
        self.clock, self.everybody = clock, everybody
        self._accounting_fields: tuple[str, ...] = (*sacct_text.FIELDS, *sacct_text.LATE_FIELDS)
        self._warned: set[str] = set()
        self.remarks = ""

    @property
    def user(self) -> str:
        """User of the jobs submitted here."""
        return self._user

    def submit(self, submission: Submission) -> int:
        """``sbatch --parsable``."""
        done = self._sbatch(submission, "--parsable")
        self._checked(done, "sbatch")
        self.remarks = done.stderr
        numbers = re.findall(r"^(\d+)(?:;\S+)?\s*$", done.stdout, re.MULTILINE)  # sites print lines around it
        if len(numbers) != 1:
            raise SlurmUnreachable(f"sbatch answered {shown(done.stdout.strip())}, which is not a job id", done.stderr)
        return int(numbers[0])

    def test(self, submission: Submission) -> str:
        """What ``sbatch --test-only`` prints about a job; it submits nothing.

        Raises:
            SlurmRefused: sbatch refused, or one of several partitions has no nodes: a slurmctld before 25.11 dies of
                ``--test-only`` where such a partition comes first (22.05.8).
        """
        named = [name for name in self._partitions_of(submission) if name]
        if len(named) > 1:
            known = {partition.name for partition in self.machine().partitions if partition.nodes}
            if unusable := [name for name in named if name not in known]:
                raise SlurmRefused(
                    f"sbatch --test-only was not run, because it can end slurmctld: sinfo shows no nodes of partition "
                    f"{unusable[0]}; leave it out of -p {','.join(named)}"
                )
        done = self._sbatch(submission, "--test-only")
        self._checked(done, "sbatch")
        return done.stderr.strip()

    def observe(self) -> Queue:
        """The snapshot of the queue from one squeue."""
        mark = secrets.token_hex(4)
        done = self._run(squeue_text.command(mark))
        jobs, skipped = squeue_text.read_queue(done.stdout, mark)
        self._warn_once("squeue", skipped)
        if skipped.count and not jobs:
            raise SlurmUnreachable(
                f"squeue printed {quantity(skipped.count, 'record')} that cannot be read", skipped.first
            )
        return Queue(int(self.clock()) if self.clock is not None else 0, jobs)

    def probe(self) -> None:
        """``scontrol ping``, which fails at once for a dead slurmctld, then a query of one job.

        A standby controller answers the first, but not the second. The job need not exist.
        """
        done = self.runner.run(["scontrol", "ping"])
        check_configured(done, "scontrol ping")
        if " is UP" not in done.stdout:
            raise SlurmUnreachable("scontrol ping found no controller that is up", done.stdout or done.stderr)
        self._run(self.one_job)

    def observe_jobs(self, numbers: Sequence[int]) -> tuple[QueuedJob, ...]:
        """Some of this user's jobs, by id; without those that the controller does not know.

        One squeue, for which slurmctld looks up one job, or goes through the jobs of one user for several ids; for the
        whole queue it would pack every job of the cluster.
        """
        if not numbers:
            return ()
        mark = secrets.token_hex(4)
        chosen = (f"--user={self.user}", f"--jobs={','.join(map(str, numbers))}")
        done = self.runner.run((*squeue_text.command(mark), *chosen))
        if done.status and GONE.search(done.stderr):
            return ()
        self._checked(done, "squeue")
        jobs, skipped = squeue_text.read_queue(done.stdout, mark)
        if skipped.count:
            raise SlurmUnreachable(
                f"squeue printed {quantity(skipped.count, 'record')} that cannot be read", skipped.first
            )
        return tuple(job for job in jobs if job.user == self.user and job.id in numbers)

    def accounting(self, since_s: int) -> tuple[AccountedJob, ...]:
        """The jobs of one sacct; none where the site has no accounting."""
        mark = secrets.token_hex(4)
        done = self.runner.run(sacct_text.command(since_s, self.everybody, self._accounting_fields, mark))
        if done.status and "Invalid field" in done.stderr and len(self._accounting_fields) > len(sacct_text.FIELDS):
            self._accounting_fields = sacct_text.FIELDS
            return self.accounting(since_s)
        if done.status and "accounting storage is disabled" in done.stderr.lower():
            return ()
        self._checked(done, "sacct")
        jobs, skipped = sacct_text.read_accounts(done.stdout, self._accounting_fields, mark)
        self._warn_once("sacct", skipped)
        return jobs

    def history(self, from_s: int, until_s: int) -> str:
        """Text of one sacct: all users' jobs that were in the queue or ran within a period.

        Its columns are ``mirage.slurm.text.sacct.HISTORY_FIELDS``, times are seconds since 1970.

        Raises:
            SlurmRefused: The site has no accounting, or does not show it.
        """
        return self._run(sacct_text.history_command(from_s, until_s)).stdout

    def qos(self) -> str:
        """Text of ``sacctmgr -P show qos``: priorities, preemption, limits.

        Raises:
            SlurmRefused: The site has no accounting, or does not show it.
        """
        return self._run(["sacctmgr", "--parsable2", "show", "qos", f"format={','.join(_QOS_COLUMNS)}"]).stdout

    def default_qos(self) -> str:
        """The QOS of this user's jobs that name none; empty where accounting has no default.

        Raises:
            SlurmRefused: The site has no accounting, or does not show it.
        """
        words = ["sacctmgr", "--parsable2", "--noheader", "show", "assoc", f"user={self.user}", "format=DefaultQOS"]
        return next(filter(None, self._run(words).stdout.splitlines()), "")

    def associations(self, cluster: str) -> str:
        """Text of ``sacctmgr -P show assoc``: accounts, users, limits on jobs that gain age.

        Args:
            cluster: Its name (``ClusterName``): the database may hold several clusters.

        Raises:
            SlurmRefused: The site has no accounting, or does not show it.
        """
        words = [f"cluster={cluster}", f"format={','.join(_ASSOCIATION_COLUMNS)}"]
        return self._run(["sacctmgr", "--parsable2", "show", "assoc", *words]).stdout

    def accrual_limits(self) -> tuple[str, ...] | None:
        """Limits on the number of jobs that gain age, such as ``qos low MaxJobsAccruePU=2``.

        Limits of QOS and associations, as far as this user is shown them; None where sacctmgr does not answer.
        """
        return self._limits(_ACCRUAL)

    def submission_limits(self) -> tuple[str, ...] | None:
        """Limits on the jobs that a user may have, such as ``assoc a ada MaxSubmitJobs=1``.

        As ``accrual_limits``.
        """
        return self._limits(_SUBMISSIONS)

    def _limits(self, columns: _LimitColumns) -> tuple[str, ...] | None:
        found: list[str] = []
        for what, named, fields in columns:
            argv = ["sacctmgr", "--parsable2", "--noheader", "show", what, f"format={','.join((*named, *fields))}"]
            try:
                done = self.runner.run(argv)
            except SlurmUnreachable:
                return None
            if done.status:
                return None
            for line in done.stdout.splitlines():
                cells = line.split("|")
                if cells[len(named) - 1] not in ("", self.user) and what == "assoc":
                    continue  # another user's
                holder = " ".join([what, *filter(None, cells[: len(named)])])
                limits = zip(fields, cells[len(named) :])
                found += [f"{holder} {field}={value}" for field, value in limits if value]
        return tuple(found)

    def accounts_are_private(self) -> bool | None:
        """Whether accounting shows each user only their own jobs; None where it is unknown.

        slurmdbd's ``PrivateData`` decides.
        """
        try:
            done = self.runner.run(["sacctmgr", "--noheader", "show", "configuration"])
        except SlurmUnreachable:
            return None
        _, _, of_daemon = done.stdout.partition("SlurmDBD configuration")
        private = machine_text.private_data(of_daemon)
        return None if done.status or private is None else bool({"jobs", "all"} & private)

    def machine(self) -> Machine:
        """Nodes and partitions from one sinfo."""
        machine, skipped = machine_text.read_machine(self._run(machine_text.NODES_COMMAND).stdout)
        self._warn_once("sinfo", skipped)
        return machine

    def reservations(self) -> tuple[SlurmReservation, ...]:
        """The reservations of one ``scontrol show reservation``."""
        reservations, skipped = read_reservations(self._run(RESERVATIONS_COMMAND).stdout)
        self._warn_once("scontrol show reservation", skipped)
        return reservations

    def configuration(self) -> Mapping[str, str]:
        """The options of ``scontrol show config``.

        Raises:
            SlurmUnreachable: It names neither the cluster nor its controller, so it is no answer of Slurm.
        """
        options = machine_text.read_config(self._run(machine_text.CONFIG_COMMAND).stdout)
        if cluster_of(options) == "@:":
            raise SlurmUnreachable(
                "scontrol show config printed neither ClusterName nor SlurmctldHost; check that the scontrol on PATH "
                "is Slurm's own"
            )
        return options

    def cancel(self, job: int | Sequence[int], *, only_pending: bool = False) -> None:
        """Cancel jobs with one ``scancel``."""
        jobs = [str(job)] if isinstance(job, int) else map(str, job)
        self._on_job(["scancel", *(["--state=PENDING"] if only_pending else []), *jobs])

    def signal(self, job: int | Sequence[int | str], name: str, *, to_batch_shell: bool = False) -> None:
        """``scancel --signal --full``: to the batch script, its children and all steps.

        With ``--batch`` in place of ``--full`` only the batch shell gets it.

        Without ``--state=RUNNING`` a job that was just requeued makes scancel retry for 95 s (22.05.8).
        """
        jobs = [str(job)] if isinstance(job, int) else map(str, job)
        self._on_job(
            ["scancel", f"--signal={name}", "--batch" if to_batch_shell else "--full", "--state=RUNNING", *jobs]
        )

    def signal_steps(self, job: int | Sequence[int], name: str) -> None:
        """``scancel --signal``: to the steps of jobs, but not to their batch scripts.

        sbatch's ``--signal`` without ``B:`` does the same.
        """
        jobs = [str(job)] if isinstance(job, int) else map(str, job)
        self._on_job(["scancel", f"--signal={name}", "--state=RUNNING", *jobs])

    def update(self, job: int | Sequence[int], changes: Mapping[str, str]) -> None:
        """``scontrol update``."""
        jobs = str(job) if isinstance(job, int) else ",".join(map(str, job))
        self._run(["scontrol", "update", f"JobId={jobs}", *(f"{key}={value}" for key, value in changes.items())])

    def release(self, job: int) -> None:
        """``scontrol release``."""
        self._run(["scontrol", "release", str(job)])

    def requeue(self, job: int, *, hold: bool = False) -> None:
        """``scontrol requeue`` or ``requeuehold``."""
        self._run(["scontrol", "requeuehold" if hold else "requeue", str(job)])

    def move_nodes(self, partition: str, nodes: tuple[str, ...]) -> None:
        """``scontrol update PartitionName=… Nodes=…``."""
        self._run(["scontrol", "update", f"PartitionName={partition}", f"Nodes={','.join(nodes)}"])

    def output(self, argv: Sequence[str]) -> str:
        """What a command prints.

        Raises:
            SlurmUnreachable: It had no answer.
            SlurmRefused: It failed.
        """
        return self._run(argv).stdout

    def _partitions_of(self, submission: Submission) -> list[str]:
        """The partitions of a job by its script, its environment and its options."""
        try:
            script = directives(Path(submission.directory, submission.script).read_bytes())
        except (OSError, ConfigurationError):  # sbatch reports it
            script = {}
        given = {**script, **from_environment(submission.environment or os.environ), **submission.options}
        return (given.get("partition") or "").split(",")

    def _sbatch(self, submission: Submission, *words: str) -> Completed:
        if (wanted := submission.options.get("chdir")) and isinstance(self.runner, SystemRunner):
            folder = Path(submission.directory) / wanted
            if not folder.is_dir():  # sbatch accepts it, and the job would run in /tmp
                raise SlurmRefused(f"sbatch was not run: there is no folder {folder} (--chdir); make the folder again")
        return self.runner.run(
            ["sbatch", *words, *to_argv(submission.options), submission.script, *submission.arguments],
            environment=submission.environment or os.environ,
            directory=submission.directory or None,
            limits=submission.limits,
        )

    def _warn_once(self, command: str, skipped: SkippedRecords) -> None:
        """Log the records of a command that could not be read, only the first time."""
        if skipped.count and command not in self._warned:
            self._warned.add(command)
            log.warning(
                f"{command} printed {quantity(skipped.count, 'record')} that cannot be read; left out, the first is: "
                f"{one_line(skipped.first)}",
                extra={"count": skipped.count, "detail": one_line(skipped.first)},
            )

    def _on_job(self, argv: Sequence[str]) -> None:
        done = self.runner.run(argv)
        each = [line for line in done.stderr.splitlines() if "job id" in line] or [done.stderr]
        if done.status == 0 or all(map(GONE.search, each)):
            return
        self._checked(done, argv[0])

    def _run(self, argv: Sequence[str]) -> Completed:
        done = self.runner.run(argv)
        self._checked(done, " ".join(argv[:2]) if argv[0] == "scontrol" else argv[0])
        return done

    def _checked(self, done: Completed, what: str) -> None:
        """Raise the error that a failed command means."""
        if done.status == 0:
            return
        if done.status < 0:
            raise SlurmUnreachable(f"{what} was ended by signal {-done.status}", done.stderr)
        check_configured(done, what)
        if _NEVER_SENT.search(done.stderr):
            raise RequestNotSent(f"{what} did not reach Slurm's controller", done.stderr)
        if _UNANSWERED.search(done.stderr):
            raise SlurmUnreachable(f"{what} had no answer from Slurm", done.stderr)
        kind = InvalidOptions if (what, done.status) == ("sbatch", _NOT_PARSED) else SlurmRefused
        raise kind(f"{what} failed with status {done.status}", done.stderr or done.stdout)


def user_of_process() -> str:
    """The name of the user of this process; the number where it has no name."""
    return user_name(os.geteuid())


def user_name(number: int) -> str:
    """The name of a user; the number where it has no name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
