"""``slurm-estimate``: lead by the start that the backfill plan promises (``squeue --start``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.policy.view import Chain, Ended, View
from mirage.provision.policies.rules import Lead
from mirage.provision.policies.start_forecast import StartForecast
from mirage.sim.slurm_conf.settings import SlurmSettings


class SlurmEstimate(Lead):
    """Leads by the wait under the backfill plan: all jobs run to their limit, none are new.

    Args:
        discipline: How the cluster orders its queue.
        scheduler: Its scheduler's parameters.
    """

    def __init__(self, *, discipline: str = "slurm", scheduler: SlurmSettings | None = None) -> None:
        self.forecast = StartForecast(1, discipline=discipline, scheduler=scheduler, arrivals=False)

    def lead_s(self, view: View, chain: Chain) -> float:
        """The wait the plan foresees for a link submitted now."""
        without_history = replace(view, ended=_nothing_ended())
        start_s = self.forecast.starts_s(without_history, np.zeros(1, dtype=np.int64))
        return float(start_s[0, 0] - view.now_s)


def _nothing_ended() -> Ended:
    """No history: every job is then taken to run until its limit."""
    return Ended.nothing()
