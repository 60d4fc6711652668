"""Shortest remaining time first as a policy in plain Python, outside the kernels.

It knows true run times, so it is something to compare with, not something a cluster can run. It shows what a policy of
the whole cluster looks like, and tests hold it to the schedule of the compiled one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mirage.policy.plan import Action, Plan, Preempt, Start
from mirage.policy.view import View


class Srtf:
    """The running set is always the shortest jobs that fit. One pool of whole nodes.

    Args:
        run_s: True run time of every job, by id.
    """

    def __init__(self, run_s: ArrayLike) -> None:
        self.run_s = np.asarray(run_s, dtype=np.float64)

    def decide(self, view: View) -> Plan:
        """Rank jobs by remaining work, fill the machine from the top, and exchange the others."""
        jobs = np.concatenate([view.pending.id, view.running.id])
        runs = np.arange(len(jobs)) >= len(view.pending)
        nodes = np.concatenate([view.pending.nodes, view.running.nodes])
        left_s = np.concatenate([self._to_do_s(view), self._to_run_s(view)])
        room = int(view.nodes.free[0, 0] + view.running.width.sum())
        preempted: list[Action] = []
        started: list[Action] = []
        for k in np.lexsort((jobs, left_s)):
            job = int(jobs[k])
            if nodes[k] <= room:
                room -= int(nodes[k])
                if not runs[k]:
                    started.append(Start(job=job, reason=f"shortest:left_s={left_s[k]:.0f}"))
            elif runs[k]:
                preempted.append(Preempt(job=job, reason=f"displaced:left_s={left_s[k]:.0f}"))
        return Plan((*preempted, *started))

    def _to_do_s(self, view: View) -> NDArray[np.float64]:
        return self.run_s[view.pending.id] - view.pending.done_s

    def _to_run_s(self, view: View) -> NDArray[np.float64]:
        """Until a running job ends: its work, or its limit."""
        running = view.running
        work_s = self.run_s[running.id] - running.done_s
        left_s: NDArray[np.float64] = np.minimum(work_s, running.start_s + running.limit_s - view.now_s)
        return left_s
