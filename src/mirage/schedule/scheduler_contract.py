"""The contract of a GPU scheduler: a view of the cluster in, a plan of typed actions out.

A scheduler reads a ``GpuView`` and returns a ``GpuPlan``. It decides which jobs run where, never how fast: the world
sets the speed. The columns of a view are read-only and show the engine's own memory, so that a view costs almost
nothing. They are valid until the scheduler returns; ``GpuView.copy`` makes a view that stays valid.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints

UNKNOWN = float("nan")
"""The value of an amount that a scheduler does not know."""


class JobStatus(IntEnum):
    """What an active job is doing."""

    PENDING = 1
    STARTING = 2  # holds GPUs and does no work yet: a first start, a restart or a change of size
    RUNNING = 3
    STOPPING = 4  # runs until its next checkpoint, then leaves
    SAVING = 5  # holds GPUs and writes a checkpoint, then leaves


How: TypeAlias = Literal["boundary", "save", "kill"]
"""The three ways to preempt: run until the next checkpoint; write one now; drop the work since the last one."""

Places: TypeAlias = Mapping[int, int]
"""Server → GPUs of one job on it."""


# -- what a scheduler may do -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuStart:
    """Start a pending job.

    Attributes:
        job: Id of the job.
        places: The GPUs it gets; None lets the engine pack ``gpus`` of them.
        gpus: Number of GPUs if ``places`` is None; None for the requested number.
        batch: Total batch size from now on; None leaves it unchanged.
        reason: The reason, as ``word`` or ``word:key=value,…``.
        estimate_s: When the scheduler expects the job to end, for the log.
    """

    job: int
    places: Places | None = None
    gpus: int | None = None
    batch: int | None = None
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class GpuResize:
    """Give a running job other GPUs instead of its present ones, or another batch size.

    A change of the batch size alone costs nothing; any other change costs the job's rescaling time.
    """

    job: int
    places: Places | None = None
    gpus: int | None = None
    batch: int | None = None
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class GpuPreempt:
    """Send a running job back to the queue; its GPUs are free when it has left.

    Attributes:
        needed_gpus: Number of its GPUs that are needed; None for all. The rest counts as evicted beyond the need.
    """

    job: int
    how: How = "save"
    needed_gpus: int | None = None
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class GpuCancel:
    """Remove a job permanently from the queue or from its GPUs."""

    job: int
    reason: str = ""
    estimate_s: float = UNKNOWN


@dataclass(frozen=True, slots=True)
class GpuLend:
    """Lend an idle server of one pool to another pool until ``until_s``.

    If inference demand of the owner exceeds the servers there, and the scheduler has not returned enough of them by
    then, inference takes lent servers by force: those with the least unsaved work first. Their loans are breached too.

    Attributes:
        until_s: The promised time of return, later than now. If jobs still use the server then, the loan is breached
            and these jobs are killed.
    """

    server: int
    pool: int
    until_s: float = float("inf")
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GpuReturn:
    """Give a lent server back to its own pool; no job may be on it."""

    server: int
    reason: str = ""


GpuAction: TypeAlias = GpuStart | GpuResize | GpuPreempt | GpuCancel | GpuLend | GpuReturn


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """The actions to apply now.

    The actions are one step: GPUs that one action frees at once are available to all others, in any order. An action
    that cannot be applied is refused on its own, and the next view reports the reason.

    Attributes:
        wake_s: Call the scheduler again at this time, later than now, in any case; None for no extra call.
    """

    actions: tuple[GpuAction, ...] = ()
    wake_s: float | None = None


# -- what a scheduler observes -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Held:
    """The GPUs held by each job, in compressed rows.

    Job k of the view holds ``gpus[first[k]:first[k + 1]]`` GPUs on the servers in the same rows of ``server``.
    """

    first: Ints
    server: Ints
    gpus: Ints

    def of(self, k: int) -> dict[int, int]:
        """Server → GPUs of the job at index k of the view."""
        a, b = int(self.first[k]), int(self.first[k + 1])
        return dict(zip(self.server[a:b].tolist(), self.gpus[a:b].tolist()))


@dataclass(frozen=True, slots=True)
class ActiveJobs:
    """Jobs that are pending or hold GPUs, in no particular order; one row each.

    Attributes:
        id: Row of the job in the workload.
        model: Index into the speeds' models, or ``LINEAR``.
        gpus: Requested GPUs.
        pool: The only pool whose servers the job may use; −1 for any.
        types: The GPU types that it may run on: bit k is type k; −1 for all.
        status: As ``JobStatus``.
        run_s: Expected run time on the requested GPUs; ``UNKNOWN`` if the scheduler may not know it. It doubles when a
            job has passed it, as often as necessary. The first epoch of a job with epochs shows the true run time: this
            is known from then on.
        done: Share of the work that is done, if the run time is as expected: it has the error of ``run_s``, and does
            not reveal the true run time; ``UNKNOWN`` if ``run_s`` is.
        progress: Work done.
        safe_progress: Work that is not lost if the job is killed now.
        attained_gpu_s: GPU-seconds held so far, pauses included.
        held: GPUs held.
        servers: Number of servers with these GPUs.
        gpu_type: Type of these GPUs; −1 if none are held.
        batch: Total batch size.
        start_s: First start; ``UNKNOWN`` before.
        paused_until_s: Expected end of the present start, restart, change of size or save; ``UNKNOWN`` if there is
            none.
        restarts: Starts after the first one, and changes of size.
        queued_since_s: Start of the present wait; ``UNKNOWN`` while the job holds GPUs.
        checkpoint_work: Work between two regular checkpoints; 0 if all work is always safe, infinite if there are none.
            It has the error of ``run_s`` until the first epoch of a job with epochs is done.
        restart_s: Expected cost of a restart, in seconds.
        rescale_s: Expected cost of a change of size, in seconds.
        save_s: Expected duration of a checkpoint on demand.
    """

    id: Ints
    submit_s: Floats
    model: Ints
    gpus: Ints
    min_gpus: Ints
    max_gpus: Ints
    pool: Ints
    types: Ints
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
        """Mask of the jobs that wait for GPUs."""
        mask: NDArray[np.bool_] = self.status == JobStatus.PENDING
        return mask

    @property
    def left_s(self) -> Floats:
        """Expected remaining run time on the requested GPUs; ``UNKNOWN`` if ``run_s`` is."""
        left: Floats = self.run_s * (1.0 - self.done)
        return left


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers, by number.

    Attributes:
        free: GPUs that no job holds.
        pool: The pool that may use the server now.
        home: The pool that owns it.
        lent_until_s: Promised time of return; infinite if the server is not lent, or lent without a promise.
        wanted: By pool, the number of servers that inference demand takes now.
        wanted_soon: By pool, the number that it is expected to take at the next change that was announced; the number
            of now if there is none. Announcements may err.
        wanted_from_s: By pool, the time of this change; infinite if there is none.
    """

    gpu_type: Ints
    gpus: Ints
    free: Ints
    pool: Ints
    home: Ints
    lent_until_s: Floats
    wanted: Ints
    wanted_soon: Ints
    wanted_from_s: Floats


@dataclass(frozen=True, slots=True)
class Refusal:
    """An action of the last plan that was refused, and the reason."""

    action: GpuAction
    why: str


@dataclass(frozen=True, slots=True)
class GpuView:
    """Snapshot of the cluster for a scheduler.

    Attributes:
        jobs: Active jobs.
        servers: All servers.
        refused: Actions of the last plan that were refused.
    """

    now_s: float
    jobs: ActiveJobs
    servers: Servers
    refused: tuple[Refusal, ...]
    _held: Callable[[], Held] = field(repr=False)

    @property
    def held(self) -> Held:
        """The GPUs held by each job; computed at each access."""
        return self._held()

    def copy(self) -> GpuView:
        """A copy of the view in memory of its own."""
        held = self.held
        copied = Held(held.first.copy(), held.server.copy(), held.gpus.copy())
        return replace(self, jobs=_copied(self.jobs), servers=_copied(self.servers), _held=lambda: copied)


def _copied(columns: Any) -> Any:
    return type(columns)(*(getattr(columns, column.name).copy() for column in fields(columns)))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts that a scheduler receives once, before its first view.

    Attributes:
        gpu_types: Names of the GPU types.
        pools: Names of the pools.
        servers: Names of the servers.
        models: Names of the models.
        speeds: The world's speeds, for schedulers that use the measurements of their jobs.
        jobs: Number of jobs of the workload, for tables by job id.
        gpus_for_one: GPUs of each type that a job gets for each GPU that it requests.
    """

    gpu_types: tuple[str, ...]
    pools: tuple[str, ...]
    servers: tuple[str, ...]
    models: tuple[str, ...]
    speeds: Any
    jobs: int
    gpus_for_one: tuple[int, ...]


@runtime_checkable
class GpuScheduler(Protocol):
    """A scheduler in plain Python.

    Two optional attributes set when it is called. ``round_s``: the interval of calls in seconds, first at ``round_s``,
    while any job is active; None, the default, calls it at events. ``called_on``: these events, as ``Event``; by
    default all but ``PROGRESS`` without rounds, and none with rounds. Without active jobs it is called only on
    ``SERVERS``. ``begin(surroundings)``, if defined, is called before the first view.
    """

    def decide(self, view: GpuView) -> GpuPlan:
        """The plan for now."""
        ...


class Event(IntEnum):
    """Events at which a scheduler can be called; values are bits."""

    SUBMITTED = 1
    ENDED = 2
    LEFT = 4  # a preempted job has left its GPUs
    SERVERS = 8  # a loan has ended, or inference demand has changed or a change was announced
    PROGRESS = 16  # a pause is over, or a job's speed has changed
