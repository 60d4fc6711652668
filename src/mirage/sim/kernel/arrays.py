"""Arrays of a simulation: ``World`` (fixed), ``State`` (forked), ``Scratch`` (neither).

A *bin* is where a job's nodes are placed. On a cluster whose jobs take whole nodes, all equal nodes form one bin and
are counted; where jobs share nodes, every node is a bin with its own free GPUs, CPUs and, where the cluster counts
it, memory, so that fragmentation is modelled. ``Scratch`` holds arrays a kernel may overwrite; nothing in it survives
a call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import int64, typeof, types
from numpy.typing import NDArray

from mirage.duration import UNLIMITED_S
from mirage.kernel.record_arrays import Records, record_type, records
from mirage.kernel.reference import joint_reference

NEVER_S = 4 * UNLIMITED_S
"""A time that is never reached."""

NO_JOB = -1
"""No job: an id, or a slot."""

NIL = -1
"""No index: the end of a list of chunks, no bin, no step of a plan, no place in a list, no limit."""

# -- status of a job ----------------------------------------------------------------------------------------------
FUTURE, HELD, PENDING, RUNNING, SUSPENDING, ENDED, CANCELLED = range(7)

# -- what a job waits for before it is eligible ---------------------------------------------------------------------
AFTER_NONE, AFTER_START, AFTER_ANY, AFTER_OK, ANSWERS_END, ANSWERS_START = range(6)
"""Jobs of the last two kinds are not submitted yet: their user does so ``begin_s`` seconds after another of their jobs
has ended, or started."""

# -- how a run segment ended ------------------------------------------------------------------------------------
BY_ITSELF, BY_LIMIT, BY_PREEMPTION, BY_CANCEL, BY_RESIZE = range(5)

_I, _F = np.int64, np.float64


_I32, _I16 = np.int32, np.int16

REQUEST = record_type(
    [
        ("id", _I),  # row of the trace, or the caller's number for an injected job
        ("submit_s", _I),
        ("begin_s", _I),  # not eligible before
        ("eligible_s", _I),  # of an injected job that was eligible before it was held; otherwise NEVER_S or unused
        ("run_s", _I),  # true run time on the requested nodes
        ("limit_s", _I),
        ("nodes", _I),
        ("priority_offset", _F),  # site priority added to the computed one (nice with the opposite sign)
        ("gpus", _I),  # per node; WHOLE_NODE takes the node
        ("cpus", _I),  # per node
        ("memory", _I),  # per node, MiB; WHOLE_NODE takes all of the node's; 0 where the cluster counts none
        ("user", _I32),
        ("account", _I32),
        ("after", _I32),  # id of the job waited for, or NO_JOB
        ("after_kind", _I32),
        ("failed", _I32),  # 1 when the job will end unsuccessfully (afterok)
        ("partition", _I16),
        ("qos", _I16),
    ]
)
"""What a user submits. A simulation has one for every job of its trace, so it is small.

Quantities of the user have 64 bits, so that no number of a trace is cut. There are no unused bytes, which copies would
leave undefined: digests of a workload count every byte.
"""

JOB = record_type(
    [
        # the request
        *((name, _F if name == "priority_offset" else _I) for name in REQUEST.names or ()),
        # the course of the job
        ("status", _I),
        ("order", _F),  # order of admission: place in the queue, lowest first
        ("priority", _F),  # as the discipline computed it last
        ("planned_s", _I),  # start in the present plan
        ("first_start_s", _I),
        ("start_s", _I),  # of this segment
        ("end_s", _I),  # true end of this segment
        ("limit_end_s", _I),  # end of this segment by the limit
        ("done_s", _F),  # useful run time in earlier segments, at the requested size
        ("resume_s", _I),  # lost at the start of this segment
        ("next_resume_s", _I),  # lost at the start of the one after a suspension
        ("width", _I),  # nodes held now
        ("speed", _F),  # run time done per second
        ("chunk", _I),  # first chunk held
        ("stamp", _I),  # distinguishes valid entries of the end heap from stale ones
    ]
)

WHOLE_NODE = -1

CHUNK = record_type([("bin", _I), ("count", _I), ("gpus", _I), ("cpus", _I), ("memory", _I), ("next", _I)])
"""``count`` nodes of one job on one bin, and the GPUs, CPUs and memory that each of them holds."""

SEGMENT = record_type(
    [("start_s", _I), ("end_s", _I), ("submit_s", _I), ("limit_s", _I), ("id", _I32), ("width", _I32), ("user", _I32),
     ("why", _I16), ("cpus", _I16)]
)  # fmt: skip
"""One run of a job from a start to an end; a job never preempted has one segment. A log has one for every job.

``cpus`` is the number of CPUs per node, rounded up; ``WHOLE_NODE`` where bins are pools.
"""

END = record_type([("due", _I), ("slot", _I), ("stamp", _I)])
"""The true end of a segment, in the form of ``mirage.kernel.heap``: ``due`` in seconds."""

ACTION = record_type(
    [("kind", _I), ("id", _I), ("nodes", _I), ("speed", _F), ("suspend_s", _I), ("resume_s", _I),
     ("bin", _I), ("partition", _I)]
)  # fmt: skip

CAPACITY = record_type([("time_s", _I), ("bin", _I), ("nodes", _I), ("announced_s", _I), ("foreseen", _I)])
"""From ``time_s`` on the bin has ``nodes`` more nodes (or fewer, as they become free).

Plans include it from ``announced_s`` on, for reservations; ``NEVER_S`` for unannounced changes. ``foreseen`` is the
index of the first announced row from here on; the number of rows where there is none.
"""

LIMIT = record_type([("per", _I), ("jobs", _I), ("nodes", _I), ("gpus", _I), ("ageing", _I)])
"""A limit on what runs, or gains age, at once; ``NEVER_S`` means no limit."""

PER_USER, PER_ACCOUNT = range(2)  # 2: all jobs together

COMPLETING = record_type([("until_s", _I), ("width", _I), ("chunk", _I)])
"""Nodes of an ended job, which another job can have from ``until_s`` on."""

SETTINGS = record_type(
    [
        ("nodes", _I),  # of the whole machine
        ("cpus", _I),  # of all nodes
        ("stacked", _I),  # 1: bins are pools of whole nodes; 0: bins are nodes
        ("max_job_test", _I),  # jobs planned in one pass
        ("bf_interval_s", _I),
        ("bf_resolution_s", _I),
        ("bf_window_s", _I),
        ("sched_interval_s", _I),
        ("default_queue_depth", _I),
        ("calc_period_s", _I),
        ("half_life_s", _F),
        ("max_age_s", _F),
        ("weight_age", _F),
        ("weight_fairshare", _F),
        ("weight_size", _F),
        ("weight_partition", _F),
        ("weight_qos", _F),
        ("weight_gpus", _F),  # PriorityWeightTRES
        ("weight_cpus", _F),
        ("favor_small", _I),
        ("size_over_time", _I),  # 1: the size of a job is divided by its limit in minutes
        ("wfp", _I),  # 1: jobs are ordered by WFP's score; 0: by the multifactor priority
        ("wfp_size", _F),  # exponents
        ("wfp_wait", _F),
        ("wfp_limit", _F),
        ("wfp_shortest_s", _I),
        ("wfp_longest_s", _I),
        ("epoch_s", _I),  # time zero of the passes of mirage-2023 and slurm
        ("consecutive", _I),  # 1: nodes are chosen as select/cons_tres does
        ("limit_check_s", _I),  # limits are enforced at multiples of this; 1: to the second
        ("requeue_hold_s", _I),  # delay until a preempted job competes again
        ("youngest_first", _I),  # 1: the job that started last is preempted first; 0: the one of the lowest QOS
        ("turnover_s", _I),  # delay until nodes of an ended job are free
        ("every_pass", _I),  # 1: also run the passes in which nothing can have changed
        ("reserves", _I),  # 1: there are changes of capacity that plans know beforehand
    ]
)

CLOCK = record_type(
    [
        ("now_s", _I),  # the present second
        ("arrived", _I),  # rows of the trace admitted so far
        ("changed_capacity", _I),  # capacity changes applied so far
        ("queue_head", _I),  # where the queue begins in its array
        ("n_pending", _I),
        ("n_running", _I),
        ("n_held", _I),
        ("n_heap", _I),
        ("n_completing", _I),
        ("n_log", _I),
        ("slots_used", _I),  # slots used at any time; released ones form a list
        ("free_slot", _I),
        ("chunks_used", _I),
        ("free_chunk", _I),
        ("sequence", _I),  # of admissions: breaks ties
        ("stamp", _I),  # of starts
        ("timer_s", _I),  # when the discipline is to be called without an event
        ("ended_since", _I),  # resources were freed since the discipline last ran
        ("arrived_since", _I),  # jobs queued since
        ("known", _I),  # pending jobs already tested under the present shadow time, or planned
        ("shadow_s", _I),  # earliest start of the blocked head
        ("n_profile", _I),
        ("watch", _I),  # id whose start stops the clock
        ("watch_slot", _I),
        ("priority_at_s", _I),  # when priorities were last computed
        ("fault", _I),  # why a plan was refused
        ("fault_id", _I),
        ("fault_value", _I),
        ("passed_at_s", _I),  # last time of the periodic pass
        ("dirty", _I),  # something changed since the periodic pass
    ]
)
"""The present time, and how much of each array of a state is in use."""

# -- results of Simulation.advance ------------------------------------------------------------------------------
REACHED, STARTED_WATCHED, NEEDS_POLICY, NEEDS_ROOM, REFUSED_PLAN = range(5)


class World(NamedTuple):
    """Everything that does not change during a simulation; shared by all forks."""

    jobs: Records  # REQUEST, by submit time
    capacity: NDArray[np.int64]  # (bins, 2 or 3): GPUs, CPUs and memory of a node; of a pool bin: nodes and 0
    changes: Records  # CAPACITY, by time
    settings: Records  # SETTINGS, one row
    partition_factor: NDArray[np.float64]  # (partitions,), 0 … 1
    partition_tier: NDArray[np.int64]  # (partitions,)
    qos_factor: NDArray[np.float64]  # (QOS,), 0 … 1
    user_account: NDArray[np.int64]  # (users,)
    displaces: NDArray[np.bool_]  # (QOS, QOS): whether jobs of the first may preempt running ones of the second
    limits: Records  # LIMIT
    limits_qos: NDArray[np.bool_]  # (limits, QOS): which jobs each counts
    limits_partition: NDArray[np.bool_]  # (limits, partitions)
    limits_user: NDArray[np.bool_]  # (limits, users), of limits on age
    limits_account: NDArray[np.bool_]  # (limits, accounts), of limits on age
    of_node: NDArray[np.int64]  # (partitions, 2): the most GPUs and CPUs of a node, which a whole node counts as
    of_partition: NDArray[np.int64]  # (partitions, 2): GPUs and CPUs of all nodes


class State(NamedTuple):
    """Everything that changes; a fork is a copy of this."""

    clock: NDArray[Any]  # CLOCK, one record
    live: Records  # JOB: held, pending and running jobs, by slot
    queue: NDArray[np.int64]  # slots of pending jobs in queue order, from queue_head on
    running: NDArray[np.int64]  # slots of running jobs, by limit_end_s
    held: NDArray[np.int64]  # slots of jobs not yet eligible
    heap: Records  # END: future true ends
    chunks: Records  # CHUNK
    free: NDArray[np.int64]  # as capacity
    extra: NDArray[np.int64]  # as capacity: free in addition to the head at the shadow time
    allowed: NDArray[np.bool_]  # (partitions, bins)
    fate: NDArray[np.int8]  # (ids,): status of every job by id
    log: Records  # SEGMENT
    profile_s: NDArray[np.int64]  # (points,): when availability changes, from now on
    level: NDArray[np.int64]  # (points,): nodes free from then on, where there is one pool of whole nodes
    profile: NDArray[np.int64]  # (points, bins, 2 or 3): the same for every bin, where there are several
    usage: NDArray[np.float64]  # (users,): decayed CPU-seconds; node-seconds where bins are pools
    counted: NDArray[np.int64]  # (limits, users or accounts, 4): see ``resources.limits``
    completing: Records  # COMPLETING, by time


class Scratch(NamedTuple):
    """Working arrays; a call never uses values that another has left."""

    low: NDArray[np.int64]  # as World.capacity
    ahead: NDArray[np.int64]  # the same: what is free later, where nodes are reserved
    there: NDArray[np.int64]  # the same: what would be free if no job ran, where nodes are reserved
    picked: NDArray[np.int64]  # (bins,): nodes chosen on each bin
    slots: NDArray[np.int64]
    keys: NDArray[np.float64]
    share: NDArray[np.float64]  # (users,)
    timeline: NDArray[np.int64]
    plan: Records  # ACTION


def _example_types() -> tuple[Any, Any, Any]:
    i1, i2 = np.zeros(1, np.int64), np.zeros((1, 2), np.int64)
    f1, b2 = np.zeros(1, np.float64), np.zeros((1, 1), np.bool_)
    world = World(
        records(REQUEST, 1), i2, records(CAPACITY, 1), records(SETTINGS, 1), f1, i1, f1, i1, b2,
        records(LIMIT, 1), b2, b2, b2, b2, i2, i2,
    )  # fmt: skip
    state = State(
        np.zeros(1, CLOCK), records(JOB, 1), i1, i1, i1, records(END, 1), records(CHUNK, 1), i2, i2,
        b2, np.zeros(1, np.int8), records(SEGMENT, 1), i1, i1,
        np.zeros((1, 1, 2), np.int64), f1, np.zeros((1, 1, 4), np.int64), records(COMPLETING, 1),
    )  # fmt: skip
    scratch = Scratch(i2, i2, i2, i1, i1, f1, f1, i1, records(ACTION, 1))
    return typeof(world), typeof(state), typeof(scratch)  # type: ignore[no-untyped-call]


WORLD_TYPE, STATE_TYPE, SCRATCH_TYPE = _example_types()
REQUESTS_TYPE = typeof(records(REQUEST, 1))  # type: ignore[no-untyped-call]

Reference = Any
"""World, state and scratch as one value that is cheap to pass (``mirage.kernel.reference``)."""

reference: Callable[[World, State, Scratch], Reference]
dereference: Callable[[Reference], tuple[World, State, Scratch]]
reference, dereference = joint_reference(WORLD_TYPE, STATE_TYPE, SCRATCH_TYPE)

DISCIPLINE = int64(types.voidptr)
"""The signature of a discipline. It is called after events, reads the state and starts jobs, or writes actions into
``scratch.plan`` and returns their number (the engine checks and applies them). A negative result stops the clock, so
that a policy outside the compiled code is called."""

DISCIPLINE_TYPE = types.FunctionType(DISCIPLINE)
