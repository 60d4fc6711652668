"""The contract of a scheduler of a GPU cluster: a view of everybody, and a plan of typed actions.

A scheduler looks at a ``View`` and answers with a ``Plan``. It says who runs where and never how fast: speed is the
world's. The columns of a view are read-only and show the engine's own memory, so that a view costs next to nothing;
they are good until the scheduler has answered, and ``View.copy`` makes one that lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Floats, Ints

UNKNOWN = float("nan")
"""The value of an amount that a scheduler does not know."""


class JobStatus(IntEnum):
    """What an active job is doing."""

    PENDING = 1
    STARTING = 2  # holds GPUs and does no work yet: a first start, a restart or a change of size
    RUNNING = 3
    STOPPING = 4  # runs on to its next checkpoint, and leaves there
    SAVING = 5  # holds GPUs and writes a checkpoint, after which it leaves


How: TypeAlias = Literal["boundary", "save", "kill"]
"""The three ways to preempt: run on to the next checkpoint; write one now; drop what was done since the last one."""

Places: TypeAlias = Mapping[int, int]
"""Server → GPUs of one job on it."""


# -- what a scheduler may do -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Start a pending job.

    Attributes:
        job: Id of the job.
        places: The GPUs it gets; None lets the engine pack ``gpus`` of them.
        gpus: How many, where no places are given; None for the size asked for.
        batch: Total batch size from now on; None keeps it.
        reason: Why, as ``word`` or ``word:key=value,…``.
        estimate_s: When the scheduler thinks the job will end, for the log.
    """

    job: int
    places: Places | None = None
    gpus: int | None = None
    batch: int | None = None
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class Resize:
    """Give a running job these GPUs in the place of those that it has, or another batch size on the same ones.

    Another batch size alone costs nothing; any other change costs the job's rescaling time.
    """

    job: int
    places: Places | None = None
    gpus: int | None = None
    batch: int | None = None
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class Preempt:
    """Send a running job back to the queue; its GPUs are free when it has left.

    Attributes:
        needed_gpus: How many of its GPUs were wanted; None for all. The rest counts as evicted beyond what was asked.
    """

    job: int
    how: How = "save"
    needed_gpus: int | None = None
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class Cancel:
    """Take a job out of the queue, or off its GPUs, for good."""

    job: int
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class Lend:
    """Lend an idle server of one pool to another, to be back at ``until_s``.

    Attributes:
        until_s: The promise, later than now; a loan that is still used then is a breach, and whoever is on the server
            is killed.
    """

    server: int
    pool: int
    until_s: float = float("inf")
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Return:
    """Give a lent server back to its own pool; nobody may be on it."""

    server: int
    reason: str = ""


Action: TypeAlias = Start | Resize | Preempt | Cancel | Lend | Return


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now.

    The actions are one step: GPUs that one of them frees at once are there for all others, in whatever order they
    stand. An action that cannot be done is refused by itself, and the next view tells why.

    Attributes:
        wake_s: Ask again at this time, later than now, whatever happens; None for no such wish.
    """

    actions: tuple[Action, ...] = ()
    wake_s: float | None = None


# -- what a scheduler sees ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """Who sits where, in compressed rows: job k of the view holds ``gpus[first[k]:first[k + 1]]`` on ``server``."""

    first: Ints
    server: Ints
    gpus: Ints

    def of(self, k: int) -> dict[int, int]:
        """Server → GPUs of the job at place k of the view."""
        a, b = int(self.first[k]), int(self.first[k + 1])
        return dict(zip(self.server[a:b].tolist(), self.gpus[a:b].tolist()))


@dataclass(frozen=True, slots=True)
class ActiveJobs:
    """Jobs that are pending or hold GPUs, in no particular order; one row each.

    Attributes:
        id: Row of the job in the workload.
        model: Index into the speeds' models, or ``LINEAR``.
        gpus: GPUs asked for.
        pool: The pool whose servers it may use; −1 for any.
        status: As ``JobStatus``.
        run_s: Expected run time on the GPUs asked for; ``UNKNOWN`` where a scheduler may not know it.
        done: Share of the work that is done; ``UNKNOWN`` with ``run_s``.
        progress: Work done.
        safe_progress: Work that a job killed now would keep.
        attained_gpu_s: GPU-seconds held so far, pauses included.
        held: GPUs held.
        servers: Servers they are on.
        gpu_type: Type of those GPUs; −1 where none are held.
        batch: Total batch size.
        start_s: First start; ``UNKNOWN`` before.
        paused_until_s: When a start, restart, change of size or save that is under way is expected to be over;
            ``UNKNOWN`` where there is none.
        restarts: Starts after the first one, and changes of size.
        queued_since_s: Since when it waits; ``UNKNOWN`` while it holds GPUs.
        restart_s: What a restart is expected to cost.
        rescale_s: What a change of size is expected to cost.
        save_s: What a checkpoint on demand is expected to take.
    """

    id: Ints
    submit_s: Floats
    model: Ints
    gpus: Ints
    min_gpus: Ints
    max_gpus: Ints
    pool: Ints
    status: Ints
    run_s: Floats
    done: Floats
    progress: Floats
    safe_progress: Floats
    attained_gpu_s: Floats
    held: Ints
    servers: Ints
    gpu_type: Ints
    batch: Ints
    start_s: Floats
    paused_until_s: Floats
    restarts: Ints
    preemptions: Ints
    queued_since_s: Floats
    checkpoint_work: Floats
    first_start_s: Floats
    restart_s: Floats
    rescale_s: Floats
    save_s: Floats

    def __len__(self) -> int:
        return len(self.id)

    @property
    def pending(self) -> NDArray[np.bool_]:
        """Which jobs wait for GPUs."""
        mask: NDArray[np.bool_] = self.status == JobStatus.PENDING
        return mask

    @property
    def left_s(self) -> Floats:
        """Run time still expected on the GPUs asked for; ``UNKNOWN`` where a scheduler may not know it."""
        left: Floats = self.run_s * (1.0 - self.done)
        return left


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers, by number.

    Attributes:
        free: GPUs that nobody holds.
        pool: The pool that may use the server now.
        home: The pool that owns it.
        lent_until_s: The promise; infinite where the server is not lent, or lent without one.
        wanted: By pool, servers that its inference demand takes now.
    """

    gpu_type: Ints
    gpus: Ints
    free: Ints
    pool: Ints
    home: Ints
    lent_until_s: Floats
    wanted: Ints


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action of the last plan that was refused, and why."""

    action: Action
    why: str


@dataclass(frozen=True, slots=True)
class View:
    """What is known now.

    Attributes:
        jobs: Active jobs.
        servers: All servers.
        refused: What became of the last plan, as far as it was refused.
    """

    now_s: float
    jobs: ActiveJobs
    servers: Servers
    refused: tuple[Refusal, ...]
    _held: Callable[[], Held] = field(repr=False)

    @property
    def held(self) -> Held:
        """Who sits where; made when it is asked for."""
        return self._held()

    def copy(self) -> View:
        """The same view in memory of its own."""
        held = self.held
        kept = Held(held.first.copy(), held.server.copy(), held.gpus.copy())
        return replace(self, jobs=_copied(self.jobs), servers=_copied(self.servers), _held=lambda: kept)


def _copied(columns: Any) -> Any:
    return type(columns)(*(getattr(columns, column.name).copy() for column in fields(columns)))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a scheduler is told once, before its first view.

    Attributes:
        gpu_types: Names of the GPU types.
        pools: Names of the pools.
        servers: Names of the servers.
        models: Names of the models.
        speeds: The world's speeds, for schedulers that measure what their jobs measure.
        jobs: Number of jobs of the workload, for tables by job id.
    """

    gpu_types: tuple[str, ...]
    pools: tuple[str, ...]
    servers: tuple[str, ...]
    models: tuple[str, ...]
    speeds: Any
    jobs: int


@runtime_checkable
class Scheduler(Protocol):
    """A scheduler in plain Python.

    Two attributes say when it is asked; both may be missing. ``round_s``: every so many seconds, from ``round_s`` on,
    while somebody is active; None, the default, asks at events. ``asked_on``: the events, as ``Event``; by default all
    without rounds, and none with them. ``begin(surroundings)``, where there is one, is called before the first view.
    """

    def decide(self, view: View) -> Plan:
        """What to do now."""
        ...


class Event(IntEnum):
    """What a scheduler can be asked on; values are bits."""

    SUBMITTED = 1
    ENDED = 2
    LEFT = 4  # a preempted job has left its GPUs
    SERVERS = 8  # a loan has ended, or inference demand has changed
    PROGRESS = 16  # a pause is over, or a job's speed has changed
