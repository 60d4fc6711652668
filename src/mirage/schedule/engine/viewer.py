"""The view of a GPU cluster: read-only columns of the engine's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.schedule.engine.kernel.current_amounts import ATTAINED, COLUMNS, DONE, PROGRESS, SAFE
from mirage.schedule.engine.kernel.gpu_arrays import GpuState, GpuWorld
from mirage.schedule.engine.kernel.python_calls import amounts_now, placements_now
from mirage.schedule.scheduler_contract import ActiveJobs, GpuView, Held, Refusal, Servers


class Viewer:
    """Makes views of one simulation."""

    def __init__(self, world: GpuWorld, state: GpuState) -> None:
        jobs, gpus = len(world.jobs), int(world.gpus_of.sum())
        self._amounts = np.zeros((COLUMNS, jobs + 1))
        self._first = np.zeros(jobs + 2, np.int64)
        self._placements = np.zeros((2, gpus + 1), np.int64)
        self._world, self._state = world, state
        self._live, self._columns = _locked(state.live), _locked(self._amounts)
        self._servers = Servers(
            gpu_type=_locked(world.type_of),
            gpus=_locked(world.gpus_of),
            free=_locked(state.free),
            pool=_locked(state.pool_of),
            home=_locked(world.home_of),
            lent_until_s=_locked(state.lent_until_s),
            wanted=_locked(state.wanted),
        )

    def view(self, refused: tuple[Refusal, ...]) -> GpuView:
        """The present view."""
        amounts_now(self._state, self._amounts)
        clock = self._state.clock[0]
        return GpuView(float(clock["now_s"]), self._jobs(int(clock["n_live"])), self._servers, refused, self._held)

    def _jobs(self, n: int) -> ActiveJobs:
        live, amounts = self._live[:n], self._columns[:, :n]
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
            done=amounts[DONE],
            progress=amounts[PROGRESS],
            safe_progress=amounts[SAFE],
            attained_gpu_s=amounts[ATTAINED],
            held=live["held"],
            servers=live["servers"],
            gpu_type=live["gpu_type"],
            batch=live["batch"],
            start_s=live["start_s"],
            paused_until_s=live["expected_until_s"],
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
        places = placements_now(self._state, self._first, self._placements[0], self._placements[1])
        placements = _locked(self._placements)
        return Held(_locked(self._first)[: n + 1], placements[0, :places], placements[1, :places])


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view of the same memory."""
    shown = array.view(np.ndarray)
    shown.flags.writeable = False
    return shown
