"""``slurm-estimate``: lead by the start in the backfill plan (``squeue --start``)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.duration import DAY_S
from mirage.forecast.forecaster import Forecaster
from mirage.policy.view import ChainView, Ended, View
from mirage.provision.policies.lead_rules import Lead
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

LONGEST_S = 5 * DAY_S
"""A wait is predicted no further than this beyond the end of the present link."""


class SlurmEstimate(Lead):
    """Leads by the wait in the backfill plan: all jobs run to their limit, no new ones arrive.

    Args:
        discipline: How the cluster orders its queue.
        scheduler: Its scheduler's parameters.
    """

    def __init__(self, *, discipline: str = "slurm", scheduler: SlurmSettings | None = None) -> None:
        self.forecast = Forecaster(1, discipline=discipline, scheduler=scheduler, arrivals=False)

    def lead_s(self, view: View, chain: ChainView) -> float:
        """Predicted wait of a link submitted now."""
        without_history = replace(view, ended=Ended.nothing())  # every job then runs until its limit
        return float(self.forecast.forecast(without_history, np.zeros(1, dtype=np.int64), LONGEST_S).waits_s[0, 0])
