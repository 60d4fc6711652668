"""The view of a GPU cluster: read-only columns of the engine's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.schedule.contract import ActiveJobs, Held, Refusal, Servers, View
from mirage.schedule.engine.kernel.arrays import State, World
from mirage.schedule.engine.kernel.calls import bring_up_now, seats_now
from mirage.schedule.engine.kernel.seen import ATTAINED, COLUMNS, DONE, PROGRESS, SAFE


class Viewer:
    """Makes views of one simulation."""

    def __init__(self, world: World, state: State) -> None:
        jobs, gpus = len(world.jobs), int(world.gpus_of.sum())
        self._seen = np.zeros((COLUMNS, jobs + 1))
        self._first = np.zeros(jobs + 2, np.int64)
        self._seats = np.zeros((2, gpus + 1), np.int64)
        self._world, self._state = world, state
        self._live, self._columns = _locked(state.live), _locked(self._seen)
        self._servers = Servers(
            gpu_type=_locked(world.type_of),
            gpus=_locked(world.gpus_of),
            free=_locked(state.free),
            pool=_locked(state.pool_of),
            home=_locked(world.home_of),
            lent_until_s=_locked(state.lent_until_s),
            wanted=_locked(state.wanted),
        )

    def view(self, refused: tuple[Refusal, ...]) -> View:
        """The present view."""
        bring_up_now(self._state, self._seen)
        clock = self._state.clock[0]
        return View(float(clock["now_s"]), self._jobs(int(clock["n_live"])), self._servers, refused, self._held)

    def _jobs(self, n: int) -> ActiveJobs:
        live, seen = self._live[:n], self._columns[:, :n]
        return ActiveJobs(
            id=live["id"],
            submit_s=live["submit_s"],
            model=live["model"],
            gpus=live["gpus"],
            min_gpus=live["min_gpus"],
            max_gpus=live["max_gpus"],
            pool=live["pool"],
            status=live["status"],
            run_s=live["known_run_s"],
            done=seen[DONE],
            progress=seen[PROGRESS],
            safe_progress=seen[SAFE],
            attained_gpu_s=seen[ATTAINED],
            held=live["held"],
            servers=live["servers"],
            gpu_type=live["gpu_type"],
            batch=live["batch"],
            start_s=live["start_s"],
            paused_until_s=live["told_until_s"],
            restarts=live["restarts"],
            preemptions=live["preemptions"],
            queued_since_s=live["queued_since_s"],
            checkpoint_work=live["checkpoint_work"],
            first_start_s=live["first_start_s"],
            restart_s=live["restart_s"],
            rescale_s=live["rescale_s"],
            save_s=live["save_s"],
        )

    def _held(self) -> Held:
        n = int(self._state.clock[0]["n_live"])
        places = seats_now(self._state, self._first, self._seats[0], self._seats[1])
        seats = _locked(self._seats)
        return Held(_locked(self._first)[: n + 1], seats[0, :places], seats[1, :places])


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of the same memory."""
    shown = array.view(np.ndarray)
    shown.flags.writeable = False
    return shown
