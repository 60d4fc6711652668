"""Sia with improvements: jobs of a model share measurements, and restart costs are true.

Differences from the published ``sia``:

* Step times are stored by model, not by job. A new job of a known model is placed at once on a suitable GPU type and
  number of GPUs, while Sia starts it on one GPU of any type and doubles it round by round, each time at the cost of a
  restart. The gradient noise of a new job is assumed to be that of the job of the model that was observed earliest in
  its life.
* The assumed cost of a restart is the world's expected cost; the published table is wrong for two models.
* Goodput is maximised over all batches that the model allows, as the running job will do; Sia stops at the batch that
  the user requested.
* Powers of goodput are not rounded to two decimals, which hides small differences between large configurations.
"""

from __future__ import annotations

import numpy as np

from mirage.job_state import Floats, Ints
from mirage.schedule.rounds.job_columns import JobColumns
from mirage.schedule.scheduler_contract import ActiveJobs, Surroundings
from mirage.schedule.schedulers.sia import Sia


class SiaPlus(Sia):
    """The scheduler; its parameters are those of ``Sia``."""

    decimals = None
    bounded_by_user = False

    def begin(self, surroundings: Surroundings) -> None:
        """Reset the state for a new simulation."""
        super().begin(surroundings)
        models = len(surroundings.models)
        self._of_model = self.history.reserve(models)
        self._earliest: Floats = np.full(models, np.inf)

    def learnt(self, rows: Ints, model: Ints) -> Ints:
        """Rows of the throughput history that store step times: one row per model."""
        shared: Ints = self._of_model[model]
        return shared

    def restart_s(self, jobs: JobColumns) -> Floats:
        """The expected cost of a restart of each job."""
        return jobs.restart_s

    def learn(self, jobs: JobColumns | ActiveJobs, rows: Ints, runs: Ints) -> None:
        """Record the measurements of running jobs; new jobs get the usual gradient noise.

        This is the noise at the start of a job of their model.
        """
        super().learn(jobs, rows, runs)
        known = self.history.known
        model, progress = jobs.model[runs], jobs.progress[runs]
        for k in np.flatnonzero(progress < self._earliest[model]).tolist():
            m, row = int(model[k]), int(rows[runs[k]])
            if progress[k] < self._earliest[m]:
                self._earliest[m] = progress[k]
                first = self._of_model[m]
                known.square[first], known.variance[first] = known.square[row], known.variance[row]
        unmeasured = np.flatnonzero((jobs.model >= 0) & np.isnan(known.square[rows]))
        first = self._of_model[jobs.model[unmeasured]]
        known.square[rows[unmeasured]], known.variance[rows[unmeasured]] = known.square[first], known.variance[first]
        known.noted[rows[unmeasured]] += 1
