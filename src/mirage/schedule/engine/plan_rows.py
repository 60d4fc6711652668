"""A plan of typed actions, written as rows for the engine."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from mirage.errors import ContractBroken
from mirage.schedule.engine.kernel.gpu_arrays import (
    ACTION,
    ALL_GPUS,
    BOUNDARY,
    CANCEL,
    KILL,
    LEND,
    NEVER_S,
    NO_POOL,
    PREEMPT,
    RESIZE,
    RETURN,
    SAVE,
    START,
)
from mirage.schedule.engine.kernel.gpu_arrays import PLACE as PLACE_DTYPE
from mirage.schedule.scheduler_contract import (
    GpuAction,
    GpuCancel,
    GpuLend,
    GpuPlan,
    GpuPreempt,
    GpuResize,
    GpuReturn,
    GpuStart,
)

_HOW = {"boundary": BOUNDARY, "save": SAVE, "kill": KILL}
_NAN = float("nan")

REFUSAL_REASONS = (
    "",
    "the job is not active",
    "the job is not pending",
    "the job holds no GPUs",
    "the job is leaving already",
    "the plan names the job or the server twice",
    "the job cannot use this number of GPUs",
    "there is no such server or pool, or a number of GPUs is not above 0",
    "the server is not in the job's pool",
    "the servers have different GPU types",
    "the GPUs are not free",
    "the job cannot run there",
    "the server is lent already, or belongs to that pool",
    "a job is on the server",
    "inference needs the server",
    "the server is not lent",
    "the loan would end at once",
    "the job may not run on this GPU type",
)
"""Reasons of refusals, by code."""


class PlanRows(NamedTuple):
    """A plan as ACTION and PLACE records, with the reasons to which its rows refer by number."""

    actions: Any
    places: Any
    reasons: list[str]


_pack_place = struct.Struct("=qq").pack
_pack = struct.Struct("=" + "".join("d" if ACTION[name].kind == "f" else "q" for name in ACTION.names or ())).pack


def plan_rows(plan: GpuPlan, first_reason: int) -> PlanRows:
    """Write a plan as records.

    Args:
        first_reason: The number of its first reason.

    Raises:
        ContractBroken: A job, a server, a number of GPUs or a batch is not a whole number.
    """
    rows, places = [], bytearray()
    for number, action in enumerate(plan.actions, first_reason):
        try:
            rows.append(_row(action, places, number))
        except struct.error as error:
            raise ContractBroken(f"{action!r} has a value of the wrong kind: {error}") from error
    actions, place_records = np.frombuffer(b"".join(rows), ACTION), np.frombuffer(places, PLACE_DTYPE)
    return PlanRows(actions, place_records, [action.reason for action in plan.actions])


def _row(action: GpuAction, places: bytearray, reason: int) -> bytes:
    # kind, id, how, gpus, batch, first, places, pool, until_s, reason, needed, estimate_s, refused
    if isinstance(action, (GpuStart, GpuResize)):
        kind = START if isinstance(action, GpuStart) else RESIZE
        first, given = len(places) // PLACE_DTYPE.itemsize, 0
        if action.places:
            given = len(action.places)
            for server, count in action.places.items():
                places += _pack_place(server, count)
        gpus, batch = action.gpus or 0, action.batch or 0
        return _pack(
            kind, action.job, 0, gpus, batch, first, given, NO_POOL, NEVER_S, reason, ALL_GPUS, action.estimate_s, 0
        )
    if isinstance(action, GpuPreempt):
        how, needed = _HOW[action.how], ALL_GPUS if action.needed_gpus is None else action.needed_gpus
        return _pack(PREEMPT, action.job, how, 0, 0, 0, 0, NO_POOL, NEVER_S, reason, needed, action.estimate_s, 0)
    if isinstance(action, GpuCancel):
        return _pack(CANCEL, action.job, 0, 0, 0, 0, 0, NO_POOL, NEVER_S, reason, ALL_GPUS, action.estimate_s, 0)
    if isinstance(action, GpuLend):
        return _pack(LEND, action.server, 0, 0, 0, 0, 0, action.pool, action.until_s, reason, ALL_GPUS, _NAN, 0)
    if isinstance(action, GpuReturn):
        return _pack(RETURN, action.server, 0, 0, 0, 0, 0, NO_POOL, NEVER_S, reason, ALL_GPUS, _NAN, 0)
    raise TypeError(
        f"{action!r} is not an action; a plan takes GpuStart, GpuResize, GpuPreempt, GpuCancel, GpuLend and GpuReturn"
    )
