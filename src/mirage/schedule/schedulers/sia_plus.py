"""Sia with its weak points mended: jobs of one model share what they have learnt, and costs are the true ones.

What differs from ``sia`` as published:

* Step times are gathered by model, not by job. A new job of a known model is placed at once on the type and with the
  number of GPUs that suit it, where Sia starts it on one GPU of any type and lets it double round by round, each time
  at the cost of a restart. Its gradients are taken to be as noisy as they were in the job of that model which was seen
  earliest in its life.
* A restart costs what the world says that it costs on average; the published table is wrong for two models.
* Goodput is looked for among all batches that the model allows, as the running job will; Sia stops at the batch that
  the user asked for.
* Powers of goodput are not rounded to two decimals, which hides small differences between large configurations.
"""

from __future__ import annotations

import numpy as np

from mirage.job_state import Floats, Ints
from mirage.schedule.contract import ActiveJobs, Surroundings
from mirage.schedule.rounds.job_columns import JobColumns
from mirage.schedule.schedulers.sia import Sia


class SiaPlus(Sia):
    """The scheduler; its parameters are those of ``Sia``."""

    decimals = None
    bounded_by_user = False

    def begin(self, surroundings: Surroundings) -> None:
        """Forget everything and get to know a world."""
        super().begin(surroundings)
        models = len(surroundings.models)
        self._of_model = self.experience.reserve(models)
        self._earliest: Floats = np.full(models, np.inf)

    def learnt(self, rows: Ints, model: Ints) -> Ints:
        """Rows of the experience in which step times are gathered."""
        shared: Ints = self._of_model[model]
        return shared

    def restart_s(self, jobs: JobColumns) -> Floats:
        """What a restart of each job is expected to cost."""
        return jobs.restart_s

    def learn(self, jobs: JobColumns | ActiveJobs, rows: Ints, runs: Ints) -> None:
        """Take in what running jobs see; new jobs get the noise of gradients that is usual at their model's start."""
        super().learn(jobs, rows, runs)
        known = self.experience.known
        model, progress = jobs.model[runs], jobs.progress[runs]
        for k in np.flatnonzero(progress < self._earliest[model]).tolist():
            m, row = int(model[k]), int(rows[runs[k]])
            if progress[k] < self._earliest[m]:
                self._earliest[m] = progress[k]
                first = self._of_model[m]
                known.square[first], known.variance[first] = known.square[row], known.variance[row]
        unseen = np.flatnonzero((jobs.model >= 0) & np.isnan(known.square[rows]))
        first = self._of_model[jobs.model[unseen]]
        known.square[rows[unseen]], known.variance[rows[unseen]] = known.square[first], known.variance[first]
        known.noted[rows[unseen]] += 1
