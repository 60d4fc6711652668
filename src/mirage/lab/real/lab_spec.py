"""Description of a private cluster, and its configuration files for Slurm."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mirage.errors import ConfigurationError, shown
from mirage.whole_numbers import make_whole

CONTROLLER, DATABASE_DAEMON, DATABASE, REST, NODES = 0, 1, 2, 3, 100
"""Ports, counted from the cluster's first."""

BATCH_STEP = 0xFFFFFFFB
"""Slurm's number of the step in which a batch script runs (SLURM_BATCH_SCRIPT)."""

QUICK_SCHEDULER = (
    "bf_interval=1,bf_resolution=1,sched_interval=2,sched_min_interval=100000,bf_continue,bf_window=1440,"
    "bf_max_job_test=1000,default_queue_depth=1000,batch_sched_delay=0"
)
"""Loops that run every second or two: tests and demonstrations need not wait for the defaults of large sites."""


_RANGES = {"nodes": (1, 500), "gpus": (0, 128), "port": (0, 64_000), "speed": (1, 60)}


@dataclass(frozen=True, slots=True)
class LabSpec:
    """Description of a private cluster.

    Attributes:
        directory: Contains everything that it writes.
        port: First of its ports: +0 … +3 and one per node from +100; 0 to find free ones.
        accounting: Whether to run MariaDB and slurmdbd, with the QOS ``low``, ``normal`` and ``high``. Without them
            slurmctld ignores the weights of age and fair-share.
        enforce: ``AccountingStorageEnforce``, with accounting; empty for nothing. With ``limits`` age restarts when
            a held job is released.
        rest: Whether to run slurmrestd.
        speed: Seconds that pass in the cluster in one second outside.
        preempt: ``none``, ``qos`` or ``partition_prio``.
        cred_expire_s: How long a requeued or preempted job is held (Slurm's own default: 120).
        min_job_age_s: How long squeue shows a job that has ended.
        name: Name of the cluster; empty for ``lab`` and four random letters: names must be unique.
        extra: Further lines of slurm.conf.

    Raises:
        ConfigurationError: The directory is no path, or a number is no whole one or out of its range.
    """

    directory: Path
    nodes: int = 4
    gpus: int = 8
    cpus: int = 64
    memory_mib: int = 512_000
    port: int = 0
    accounting: bool = False
    enforce: str = "associations,limits,qos"
    rest: bool = False
    speed: int = 1
    preempt: str = "none"
    cred_expire_s: int = 5
    min_job_age_s: int = 300
    kill_wait_s: int = 2
    name: str = ""
    scheduler_parameters: str = QUICK_SCHEDULER
    priority_flags: str = ""
    extra: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        directory: object = self.directory
        if not isinstance(directory, str | Path):
            raise ConfigurationError(f"directory is {shown(directory)}; give a path")
        object.__setattr__(self, "directory", Path(directory))
        make_whole(self, *_RANGES)
        for name, (least, most) in _RANGES.items():
            if not least <= getattr(self, name) <= most:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; give a number from {least} to {most}")

    @property
    def cluster_name(self) -> str:
        """Slurm's ClusterName."""
        return self.name or "lab"

    @property
    def home(self) -> Path:
        """The agent's folder for the chains of this cluster: ``MIRAGE_HOME``."""
        return self.directory / "mirage-home"

    @property
    def etc(self) -> Path:
        """Configuration folder."""
        return self.directory / "etc"

    @property
    def conf(self) -> Path:
        """Slurm's configuration: ``SLURM_CONF``, which identifies the cluster's processes."""
        return self.etc / "slurm.conf"

    @property
    def run(self) -> Path:
        """Folder of sockets and process ids."""
        return self.directory / "run"

    @property
    def log(self) -> Path:
        """Folder of the daemons' logs."""
        return self.directory / "log"

    @property
    def state(self) -> Path:
        """Folder of the daemons' state."""
        return self.directory / "state"

    @property
    def dev(self) -> Path:
        """Folder of devices in place of GPUs."""
        return self.directory / "dev"

    @property
    def longest_socket(self) -> Path:
        """Socket of slurmstepd on the last node for the batch step of a job.

        The job has a number of six digits.
        """
        last = self.node_names[-1]
        return self.state / last / f"{last}_999999.{BATCH_STEP}"

    @property
    def node_names(self) -> list[str]:
        """Names of its nodes, ``n1`` and so on."""
        return [f"n{k}" for k in range(1, self.nodes + 1)]


def slurm_conf(spec: LabSpec, user: str) -> str:
    """Returns the cluster's slurm.conf.

    Timeouts are on the cluster's clock, so an accelerated one needs longer timeouts; there slurmd never times out
    (``SlurmdTimeout=0``), because a pause of this machine is minutes on that clock.
    """
    slow = spec.speed
    lines = [
        f"ClusterName={spec.cluster_name}",
        "SlurmctldHost=localhost",
        f"SlurmUser={user}",
        f"SlurmdUser={user}",
        f"SlurmctldPort={spec.port + CONTROLLER}",
        f"StateSaveLocation={spec.state}/ctld",
        f"SlurmdSpoolDir={spec.state}/%n",
        f"SlurmctldPidFile={spec.run}/slurmctld.pid",
        f"SlurmdPidFile={spec.run}/%n.pid",
        f"SlurmctldLogFile={spec.log}/slurmctld.log",
        f"SlurmdLogFile={spec.log}/%n.log",
        "AuthType=auth/munge",
        "CredType=cred/munge",
        f"AuthInfo=socket={spec.run}/munge.sock,cred_expire={spec.cred_expire_s}",
        "AuthAltTypes=auth/jwt",
        f"AuthAltParameters=jwt_key={spec.state}/jwt.key",
        "MailProg=/bin/true",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SwitchType=switch/none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "SchedulerType=sched/backfill",
        f"SchedulerParameters={spec.scheduler_parameters}",
        "PriorityType=priority/multifactor",
        "PriorityCalcPeriod=1",
        "PriorityWeightAge=1000",
        "PriorityMaxAge=1-0",
        "PriorityDecayHalfLife=1-0",
        "PriorityWeightFairshare=2000",
        "PriorityWeightJobSize=100",
        "PriorityWeightPartition=5000",
        "PriorityWeightQOS=10000",
        *([f"PriorityFlags={spec.priority_flags}"] if spec.priority_flags else []),
        f"PreemptType=preempt/{spec.preempt}",
        f"PreemptMode={'OFF' if spec.preempt == 'none' else 'REQUEUE'}",
        f"MinJobAge={spec.min_job_age_s}",
        f"KillWait={spec.kill_wait_s}",
        "CompleteWait=0",
        "InactiveLimit=0",
        "WaitTime=0",
        "ReturnToService=1",
        "EpilogMsgTime=1",
        f"MessageTimeout={20 * slow}",
        f"TCPTimeout={2 * slow}",
        f"SlurmctldTimeout={60 * slow}",
        f"BatchStartTimeout={60 * slow}",
        f"SlurmdTimeout={120 if slow == 1 else 0}",
        "MaxArraySize=10001",
        "MaxJobCount=50000",
        "TreeWidth=200",
        "SlurmdParameters=config_overrides",
        "LaunchParameters=enable_nss_slurm",
        *(["GresTypes=gpu"] if spec.gpus else []),
        *_accounting(spec),
        *_nodes(spec),
        "PartitionName=main Nodes=ALL Default=YES DefaultTime=10 MaxTime=INFINITE State=UP DefMemPerCPU=1000",
        *spec.extra,
    ]
    return "\n".join(lines) + "\n"


def gres_conf(spec: LabSpec, device: str) -> str:
    """Returns gres.conf; without device files for GPUs, jobs do not learn which are theirs."""
    if not spec.gpus:
        return ""
    return f"NodeName=n[1-{spec.nodes}] Name=gpu File={device}[0-{spec.gpus - 1}]\n"


def slurmdbd_conf(spec: LabSpec, user: str) -> str:
    """The accounting daemon's configuration."""
    return "\n".join(
        (
            "DbdHost=localhost",
            "DbdAddr=127.0.0.1",
            f"DbdPort={spec.port + DATABASE_DAEMON}",
            f"SlurmUser={user}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={spec.run}/munge.sock",
            f"PidFile={spec.run}/slurmdbd.pid",
            f"LogFile={spec.log}/slurmdbd.log",
            "CommitDelay=1",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            f"StoragePort={spec.port + DATABASE}",
            "StorageUser=slurm",
            "StoragePass=slurm",
            "StorageLoc=slurm_acct",
            "",
        )
    )


def _accounting(spec: LabSpec) -> list[str]:
    if not spec.accounting:
        return ["AccountingStorageType=accounting_storage/none"]
    return [
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=localhost",
        f"AccountingStoragePort={spec.port + DATABASE_DAEMON}",
        f"AccountingStoragePass={spec.run}/munge.sock",
        *([f"AccountingStorageEnforce={spec.enforce}"] if spec.enforce else []),
        "AccountingStoreFlags=job_comment",
        *(["AccountingStorageTRES=gres/gpu"] if spec.gpus else []),
    ]


def _nodes(spec: LabSpec) -> list[str]:
    gres = f" Gres=gpu:{spec.gpus}" if spec.gpus else ""
    return [
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={spec.port + NODES + k} CPUs={spec.cpus} "
        f"Boards=1 SocketsPerBoard=1 CoresPerSocket={spec.cpus} ThreadsPerCore=1 RealMemory={spec.memory_mib}{gres}"
        for k, name in enumerate(spec.node_names, 1)
    ]
