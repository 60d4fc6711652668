"""``what-if`` with the true run times of all jobs in view: a bound, not a policy."""

from __future__ import annotations

from typing import Any

from mirage.forecast.run_times import TrueRunTimes
from mirage.job_state import Ints
from mirage.provision.policies.what_if import WhatIf


def what_if_with_true_run_times(run_s: Ints, **needed: Any) -> WhatIf:
    """Creates ``what-if`` with given run times.

    Args:
        run_s: Shape (jobs,), by job id.
        needed: What ``what-if`` needs of the settings.
    """
    policy = WhatIf(**needed)
    policy.forecaster.run_times = TrueRunTimes(run_s)
    return policy
